#include "tests/softhca/remote_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <sstream>

namespace softhca_test {

RemoteProcess::RemoteProcess(int gpu, size_t bytes) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) abort();
  pid_ = fork();
  if (pid_ == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    execl(REMOTE_PROGRAM, REMOTE_PROGRAM, nullptr);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  to_ = in[1];
  from_ = out[0];
  std::istringstream answer(ask("open " + std::to_string(gpu) + " " + std::to_string(bytes)));
  answer >> address_.qpn >> address_.lid >> memory_ >> rkey_;
}

RemoteProcess::~RemoteProcess() {
  if (to_ >= 0) finish();
}

std::string RemoteProcess::ask(const std::string& command) {
  std::string line = command + "\n";
  if (write(to_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) return "";
  return answer();
}

std::string RemoteProcess::answer() {
  std::string line;
  char c = 0;
  while (read(from_, &c, 1) == 1 && c != '\n') line += c;
  return line;
}

void RemoteProcess::connect(Endpoint& own) {
  Address address = own.address();
  ASSERT_EQ(ask("connect " + std::to_string(address.qpn) + " " + std::to_string(address.lid)),
            "ok");
  own.connect(address_);
}

void RemoteProcess::kill() {
  ::kill(pid_, SIGKILL);
  // Waits until it is dead, without reaping it.
  siginfo_t info = {};
  waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
}

void RemoteProcess::reap() {
  close(to_);
  close(from_);
  to_ = -1;
  waitpid(pid_, nullptr, 0);
}

int RemoteProcess::finish() {
  close(to_);
  to_ = -1;
  int status = 0;
  waitpid(pid_, &status, 0);
  close(from_);
  return status;
}

}  // namespace softhca_test

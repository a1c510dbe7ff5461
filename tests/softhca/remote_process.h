// A second process with one endpoint and one buffer, for tests.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <sstream>
#include <string>

#include "tests/unit/softhca/endpoint.h"

namespace softhca_test {

class RemoteProcess {
 public:
  // Starts remote_main with a buffer on `gpu` (-1: host).
  RemoteProcess(int gpu, size_t bytes) {
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
  ~RemoteProcess() {
    if (to_ >= 0) finish();
  }
  RemoteProcess(const RemoteProcess&) = delete;
  RemoteProcess& operator=(const RemoteProcess&) = delete;

  // Sends a command line; returns the answer.
  std::string ask(const std::string& command) {
    std::string line = command + "\n";
    if (write(to_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) return "";
    return answer();
  }
  int ask_number(const std::string& command) { return std::stoi(ask(command)); }
  // Reads the next answer of a command that has several.
  std::string answer() {
    std::string line;
    char c = 0;
    while (read(from_, &c, 1) == 1 && c != '\n') line += c;
    return line;
  }
  // Connects its endpoint with ours, both ways.
  void connect(Endpoint& own) {
    Address address = own.address();
    ASSERT_EQ(ask("connect " + std::to_string(address.qpn) + " " + std::to_string(address.lid)),
              "ok");
    own.connect(address_);
  }

  const Address& address() const { return address_; }
  uint64_t memory() const { return memory_; }
  uint32_t rkey() const { return rkey_; }

  // SIGKILL; the process stays a zombie until `reap`.
  void kill() {
    ::kill(pid_, SIGKILL);
    // Waits until it is dead, without reaping it.
    siginfo_t info = {};
    waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }
  void reap() {
    close(to_);
    close(from_);
    to_ = -1;
    waitpid(pid_, nullptr, 0);
  }
  // Closes its stdin, so that it ends by itself. Returns its exit status.
  int finish() {
    close(to_);
    to_ = -1;
    int status = 0;
    waitpid(pid_, &status, 0);
    close(from_);
    return status;
  }

 private:
  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
  Address address_;
  uint64_t memory_ = 0;
  uint32_t rkey_ = 0;
};

}  // namespace softhca_test

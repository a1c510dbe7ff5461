#include "tools/doctor/burn_in_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>

#include "base/unique_fd.h"

namespace gdr::tools::doctor {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMostChildOutput = size_t{1} << 20;
constexpr int kNoExec = 127;

// Everything that the child needs between fork() and execve(), where it must not allocate: a
// thread of a library may have held the allocator's lock.
struct ChildStart {
  pid_t parent = 0;
  const char* program = nullptr;
  std::vector<char*> arguments, environment;
  int input = -1, output = -1, errors = -1, failure = -1;
  std::optional<cpu_set_t> cpus;
};

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// The environment of this process with `replaced`.
std::vector<std::string> environment_with(const std::vector<std::string>& replaced) {
  const auto name_in = [](std::string_view word) { return word.substr(0, word.find('=') + 1); };
  std::vector<std::string> words = replaced;
  for (char** one = environ; one != nullptr && *one != nullptr; ++one) {
    bool is_replaced = false;
    for (const std::string& word : replaced) is_replaced |= name_in(word) == name_in(*one);
    if (!is_replaced) words.emplace_back(*one);
  }
  return words;
}

std::optional<cpu_set_t> usable_cpus(const std::vector<int>& wanted) {
  cpu_set_t allowed, chosen;
  CPU_ZERO(&chosen);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
  for (int cpu : wanted) {
    if (cpu >= 0 && cpu < CPU_SETSIZE && CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &chosen);
  }
  if (CPU_COUNT(&chosen) < 2) return {};
  return chosen;
}

// The kernel kills the child when its parent ends; getppid() shows a parent that ended before
// prctl().
[[noreturn]] void become(const ChildStart& start) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != start.parent) _exit(kNoExec);
  if (start.cpus) sched_setaffinity(0, sizeof *start.cpus, &*start.cpus);
  if (dup2(start.input, STDIN_FILENO) >= 0 && dup2(start.output, STDOUT_FILENO) >= 0 &&
      dup2(start.errors, STDERR_FILENO) >= 0) {
    execve(start.program, start.arguments.data(), start.environment.data());
  }
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(start.failure, &error, sizeof error);
  _exit(kNoExec);
}

// Reads what execve() failed with; 0: the descriptor was closed, because it succeeded.
int exec_error(int fd) {
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(fd, &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof error) ? error : 0;
}

// A parent may have left SIGCHLD ignored, as some daemons and launchers do. The kernel then drops
// the status of each child, here and in the programs that are started.
void keep_status_of_children() {
  struct sigaction now = {};
  if (sigaction(SIGCHLD, nullptr, &now) != 0) return;
  if (now.sa_handler == SIG_IGN || (now.sa_flags & SA_NOCLDWAIT) != 0) signal(SIGCHLD, SIG_DFL);
}

UniqueFd memory_file() { return UniqueFd(memfd_create("nccl-gdr-burn-in", MFD_CLOEXEC)); }

size_t size_of_file(int fd) {
  struct stat status = {};
  return fstat(fd, &status) == 0 ? static_cast<size_t>(status.st_size) : 0;
}

std::string content_of_memory(int fd) {
  std::string text(std::min(size_of_file(fd), kMostChildOutput), '\0');
  const ssize_t got = pread(fd, text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

}  // namespace

struct ChildProcess::Running {
  pid_t pid = -1;
  bool ended = false;
  std::optional<int> status;  // nothing: unknown, also after the end
  UniqueFd output, errors;

  ~Running() { end(); }

  bool has_ended() {
    if (ended) return true;
    if (prints_without_end()) kill(pid, SIGKILL);
    int how = 0;
    const pid_t waited = waitpid(pid, &how, WNOHANG);
    if (waited == pid) status = how;
    ended = waited == pid || (waited < 0 && errno == ECHILD);
    return ended;
  }

  bool prints_without_end() const {
    return size_of_file(output.get()) + size_of_file(errors.get()) > 16 * kMostChildOutput;
  }

  bool wait_until(BurnInClock::time_point deadline) {
    while (!has_ended()) {
      if (BurnInClock::now() >= deadline) return false;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return true;
  }

  // One that does not end by SIGKILL waits in a driver, and is left to the kernel.
  void end() {
    for (const auto& [signal_number, patience] : {std::pair(SIGTERM, 1), std::pair(SIGKILL, 5)}) {
      if (has_ended()) return;
      kill(pid, signal_number);
      wait_until(BurnInClock::now() + std::chrono::seconds(patience));
    }
  }
};

ChildProcess::ChildProcess(std::unique_ptr<Running> running) : running_(std::move(running)) {}
ChildProcess::ChildProcess(ChildProcess&&) noexcept = default;
ChildProcess& ChildProcess::operator=(ChildProcess&&) noexcept = default;
ChildProcess::~ChildProcess() = default;

Result<ChildProcess> ChildProcess::start(const ChildSpec& spec) {
  keep_status_of_children();
  auto running = std::make_unique<Running>();
  running->ended = true;  // until it is started
  running->output = memory_file();
  running->errors = memory_file();
  const UniqueFd input(open("/dev/null", O_RDONLY | O_CLOEXEC));
  int pipe_ends[2] = {-1, -1};
  const bool has_pipe = pipe2(pipe_ends, O_CLOEXEC) == 0;
  const UniqueFd failure_read(pipe_ends[0]);
  UniqueFd failure_write(pipe_ends[1]);
  if (!has_pipe || !input.valid() || !running->output.valid() || !running->errors.valid()) {
    return fail_errno(Code::kSystem, "no file for the output of " + spec.program, errno);
  }
  std::vector<std::string> words = spec.arguments;
  words.insert(words.begin(), std::filesystem::path(spec.program).filename().string());
  const std::vector<std::string> environment = environment_with(spec.environment);
  const ChildStart start{getpid(),
                         spec.program.c_str(),
                         pointers_to(words),
                         pointers_to(environment),
                         input.get(),
                         running->output.get(),
                         running->errors.get(),
                         failure_write.get(),
                         usable_cpus(spec.cpus)};
  running->pid = fork();
  if (running->pid == 0) become(start);
  if (running->pid < 0) return fail_errno(Code::kSystem, "cannot run " + spec.program, errno);
  running->ended = false;
  failure_write.reset();
  if (const int error = exec_error(failure_read.get()); error != 0) {
    return fail_errno(Code::kSystem, "cannot run " + spec.program, error);
  }
  return ChildProcess(std::move(running));
}

bool ChildProcess::has_ended() { return running_->has_ended(); }
bool ChildProcess::wait_until(BurnInClock::time_point deadline) {
  return running_->wait_until(deadline);
}
void ChildProcess::end() { running_->end(); }

int ChildProcess::exit_status() const {
  const std::optional<int>& status = running_->status;
  return status && WIFEXITED(*status) ? WEXITSTATUS(*status) : -1;
}

std::string ChildProcess::how_it_ended() const {
  if (!running_->status) return "ended with an unknown status";
  if (!WIFSIGNALED(*running_->status)) return fmt::format("ended with status {}", exit_status());
  const int number = WTERMSIG(*running_->status);
  return fmt::format("was ended by signal {} ({})", number, strsignal(number));
}

std::string ChildProcess::output() const { return content_of_memory(running_->output.get()); }
std::string ChildProcess::errors() const { return content_of_memory(running_->errors.get()); }

bool wait_for_ends(const std::function<bool()>& have_ended,
                   const std::function<bool()>& first_has_ended, BurnInClock::duration limit,
                   BurnInClock::duration grace) {
  auto deadline = BurnInClock::now() + limit;
  bool is_short = false;
  while (!have_ended() && BurnInClock::now() < deadline) {
    if (!is_short && first_has_ended()) {
      is_short = true;
      deadline = std::min(deadline, BurnInClock::now() + grace);
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  return is_short;
}

std::string program_in_path(const std::string& name, const std::string& path) {
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path file = std::filesystem::path(folder) / name;
    std::error_code unreadable;
    if (std::filesystem::is_regular_file(file, unreadable) && access(file.c_str(), X_OK) == 0) {
      return file.string();
    }
  }
  return "";
}

}  // namespace gdr::tools::doctor

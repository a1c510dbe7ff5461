#include "tests/softhca/rail_loss_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <vector>

namespace gdr::rail_loss {
namespace {

using Clock = std::chrono::steady_clock;

// For one answer of an end, which gives up by itself before that.
constexpr std::chrono::seconds kAnswerTime{90};

std::map<std::string, std::string> environment_of(const Scenario& scenario, int end,
                                                  const RunArguments& arguments) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (name.starts_with("NCCL_") || name.starts_with("GDR_NCCL_")) continue;
    variables[name] = text.substr(equals + 1);
  }
  const bool gpu = scenario.memory != MemoryKind::kHost;
  variables["LD_LIBRARY_PATH"] = gpu ? arguments.gpu_libraries : arguments.libraries;
  variables["SOFTHCA_CONFIG"] = softhca_config(scenario, end, fmt::format("rail-loss-{}", getpid()),
                                               faults_file(arguments, scenario.seed, end));
  variables["NCCL_SOCKET_IFNAME"] = "lo";
  variables["NCCL_IB_QPS_PER_CONNECTION"] = std::to_string(scenario.queue_pairs);
  variables["NCCL_IB_SPLIT_DATA_ON_QPS"] = scenario.split ? "1" : "0";
  variables["NCCL_IB_ADAPTIVE_ROUTING"] = scenario.adaptive ? "1" : "0";
  variables["NCCL_IB_MQP_RETRY_SLEEP_MSEC"] = "1";
  // An HCA gives up after 67 ms, and a connection that has no rail left after 5 s.
  variables["NCCL_IB_TIMEOUT"] = "11";
  variables["GDR_NCCL_WATCHDOG_SEC"] = "5";
  // A socket that is shut down looks as if the peer had ended.
  if (scenario.socket_lost_at >= 0) variables["GDR_NCCL_PEER_WATCH"] = "0";
  if (gpu) {
    const bool peermem = scenario.memory == MemoryKind::kPeermem;
    variables["GDR_NCCL_GPU_MEMORY"] = peermem ? "peermem" : "dmabuf";
  }
  return variables;
}

}  // namespace

std::string faults_file(const RunArguments& arguments, uint64_t seed, int end) {
  return fmt::format("{}/{}-{}.faults", arguments.folder, seed, end);
}

Process::Process(const Scenario& scenario, int end, const RunArguments& arguments) {
  std::array<int, 2> in{}, out{};
  if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0) abort();
  std::vector<std::string> words{arguments.program,
                                 "end",
                                 std::to_string(scenario.seed),
                                 std::to_string(end),
                                 arguments.plugin,
                                 faults_file(arguments, scenario.seed, end)};
  std::vector<std::string> settings;
  for (const auto& [name, value] : environment_of(scenario, end, arguments)) {
    settings.push_back(name + "=" + value);
  }
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& setting : settings) envp.push_back(setting.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  const int log = open(log_file(arguments, scenario.seed, end).c_str(),
                       O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  pid_ = fork();
  if (pid_ == 0) {
    signal(SIGPIPE, SIG_DFL);  // the plugin must not rely on its being ignored
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  ::close(log);
  to_ = in[1];
  from_ = out[0];
}

Process::~Process() {
  ::close(to_);
  if (!end_.empty()) kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  ::close(from_);
}

// SIGPIPE is ignored here: an end that has ended must not end the program with it.
void Process::write_line(const std::string& line) {
  const std::string whole = line + "\n";
  if (write(to_, whole.data(), whole.size()) < 0) end_ = "it has ended";
}

std::optional<std::string> Process::read_line() {
  const auto limit = Clock::now() + kAnswerTime;
  for (size_t newline; (newline = unread_.find('\n')) == std::string::npos;) {
    pollfd ready{from_, POLLIN, 0};
    if (Clock::now() > limit || poll(&ready, 1, 1000) < 0) {
      end_ = "it does not answer";
      return {};
    }
    if (ready.revents == 0) continue;
    std::array<char, 4096> bytes;
    const ssize_t count = read(from_, bytes.data(), bytes.size());
    if (count <= 0) {
      end_ = "it has ended";
      return {};
    }
    unread_.append(bytes.data(), static_cast<size_t>(count));
  }
  const size_t newline = unread_.find('\n');
  std::string line = unread_.substr(0, newline);
  unread_.erase(0, newline + 1);
  return line;
}

std::optional<std::string> Process::answer(const std::string& word) {
  const std::optional<std::string> line = read_line();
  if (!line || !line->starts_with(word + " ")) return {};
  return line->substr(word.size() + 1);
}

}  // namespace gdr::rail_loss

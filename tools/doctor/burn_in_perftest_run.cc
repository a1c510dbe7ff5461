#include "tools/doctor/burn_in_perftest_run.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <thread>

#include "base/unique_fd.h"
#include "tools/doctor/burn_in_perftest_output.h"
#include "tools/topo/file_content.h"

namespace gdr::tools::doctor {
namespace {

using std::chrono::milliseconds;

// How long an end may go on after the other one has ended.
constexpr auto kPerftestGrace = std::chrono::seconds(10);

bool listens_now(int tcp_port) {
  for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    if (is_listening(topo::file_content(file).value_or(""), tcp_port)) return true;
  }
  return false;
}

bool has_left(std::optional<ChildProcess>* end) { return end->has_value() && (*end)->has_ended(); }

}  // namespace

bool is_listening(const std::string& proc_net_tcp, int tcp_port) {
  constexpr unsigned kListen = 0x0A;  // TCP_LISTEN
  std::istringstream lines(proc_net_tcp);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, local, remote, state;
    words >> number >> local >> remote >> state;
    const size_t colon = local.rfind(':');
    if (colon == std::string::npos || state.empty()) continue;
    if (std::strtoul(state.c_str(), nullptr, 16) != kListen) continue;
    if (std::strtol(local.c_str() + colon + 1, nullptr, 16) == tcp_port) return true;
  }
  return false;
}

int free_tcp_port() {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  socklen_t bytes = sizeof name;
  auto* address = reinterpret_cast<sockaddr*>(&name);
  if (!fd.valid() || bind(fd.get(), address, sizeof name) != 0) return 0;
  return getsockname(fd.get(), address, &bytes) == 0 ? ntohs(name.sin_port) : 0;
}

Status PerftestRun::start_server(int tcp_port, BurnInClock::duration limit) {
  auto child = ChildProcess::start(spec_);
  if (!child) return forward_error(child);
  server_ = std::move(*child);
  const auto deadline = BurnInClock::now() + limit;
  while (!server_->has_ended() && BurnInClock::now() < deadline) {
    if (listens_now(tcp_port)) return {};
    std::this_thread::sleep_for(milliseconds(20));
  }
  const bool ended = server_->has_ended();
  server_->end();
  const std::string how =
      ended ? server_->how_it_ended() : fmt::format("does not listen at TCP port {}", tcp_port);
  return tl::unexpected(error_of(fmt::format("{} {}", name_of(program_), how)));
}

Status PerftestRun::start_client(const std::string& address) {
  ChildSpec spec = spec_;
  spec.arguments.push_back(address);
  auto child = ChildProcess::start(spec);
  if (!child) return forward_error(child);
  client_ = std::move(*child);
  return {};
}

Result<double> PerftestRun::finish(const std::function<bool()>& other_ended,
                                   BurnInClock::duration limit) {
  auto deadline = BurnInClock::now() + limit;
  bool is_short = false;
  while (!has_ended() && BurnInClock::now() < deadline) {
    if (!is_short && (has_left(&server_) || has_left(&client_) || other_ended())) {
      is_short = true;
      deadline = std::min(deadline, BurnInClock::now() + kPerftestGrace);
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  ChildProcess* measuring = client_ ? &*client_ : &*server_;
  const std::string how = how_it_ended(measuring, limit);
  if (server_) server_->end();
  if (client_) client_->end();
  if (how.empty()) return result_of(*measuring);
  return tl::unexpected(error_of(how));
}

bool PerftestRun::has_ended() {
  return (!server_ || server_->has_ended()) && (!client_ || client_->has_ended());
}

// "" where it ended by itself and well.
std::string PerftestRun::how_it_ended(ChildProcess* end, BurnInClock::duration limit) const {
  if (!end->has_ended()) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit).count();
    return fmt::format("{} did not end within {} s", name_of(program_), seconds);
  }
  if (end->exit_status() == 0) return "";
  return fmt::format("{} {}", name_of(program_), end->how_it_ended());
}

Result<double> PerftestRun::result_of(const ChildProcess& end) const {
  const std::string output = end.output();
  const bool is_bandwidth = program_ == PerftestProgram::kWriteBandwidth;
  Result<double> value = is_bandwidth ? perftest_gbits(output, kPerftestBandwidthBytes)
                                      : perftest_latency_us(output, kPerftestLatencyBytes);
  if (value || value.error().text.find(". Fix: ") != std::string::npos) return value;
  return tl::unexpected(error_of(
      fmt::format("{} ended with status 0, but {}", name_of(program_), value.error().text)));
}

Error PerftestRun::error_of(const std::string& how) const {
  std::string output, errors;
  for (const std::optional<ChildProcess>* end : {&client_, &server_}) {
    if (!end->has_value()) continue;
    output += (*end)->output() + "\n";
    errors += (*end)->errors() + "\n";
  }
  return perftest_error(how, output, errors);
}

}  // namespace gdr::tools::doctor

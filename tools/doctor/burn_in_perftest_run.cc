#include "tools/doctor/burn_in_perftest_run.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <thread>

#include "base/finding.h"
#include "base/unique_fd.h"
#include "tools/doctor/burn_in_perftest_output.h"
#include "tools/topo/file_content.h"

namespace gdr::tools::doctor {
namespace {

using std::chrono::milliseconds;

constexpr unsigned kEstablished = 0x01;  // TCP_ESTABLISHED
constexpr unsigned kListen = 0x0A;       // TCP_LISTEN

struct TcpSocket {
  long local_port, remote_port;
  unsigned long state;
};

long port_in(const std::string& address) {
  const size_t colon = address.rfind(':');
  return colon == std::string::npos ? -1 : std::strtol(address.c_str() + colon + 1, nullptr, 16);
}

std::vector<TcpSocket> tcp_sockets(const std::string& proc_net_tcp) {
  std::vector<TcpSocket> sockets;
  std::istringstream lines(proc_net_tcp);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, local, remote, state;
    words >> number >> local >> remote >> state;
    if (state.empty()) continue;
    sockets.push_back({port_in(local), port_in(remote), std::strtoul(state.c_str(), nullptr, 16)});
  }
  return sockets;
}

long long seconds_of(BurnInClock::duration time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time).count();
}

bool listens_now(int tcp_port) {
  for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    if (is_listening(topo::file_content(file).value_or(""), tcp_port)) return true;
  }
  return false;
}

bool has_left(std::optional<ChildProcess>* end) { return end->has_value() && (*end)->has_ended(); }

}  // namespace

bool is_listening(const std::string& proc_net_tcp, int tcp_port) {
  const std::vector<TcpSocket> sockets = tcp_sockets(proc_net_tcp);
  return std::any_of(sockets.begin(), sockets.end(), [&](const TcpSocket& one) {
    return one.state == kListen && one.local_port == tcp_port;
  });
}

bool has_connection(const std::string& proc_net_tcp, int tcp_port) {
  const std::vector<TcpSocket> sockets = tcp_sockets(proc_net_tcp);
  return std::any_of(sockets.begin(), sockets.end(), [&](const TcpSocket& one) {
    return one.state == kEstablished && (one.local_port == tcp_port || one.remote_port == tcp_port);
  });
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
  auto child = ChildProcess::start(server_spec_);
  if (!child) return forward_error(child);
  server_ = std::move(*child);
  tcp_port_ = tcp_port;
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

Status PerftestRun::start_client(const std::string& address, int tcp_port) {
  ChildSpec spec = client_spec_;
  spec.arguments.push_back(address);
  auto child = ChildProcess::start(spec);
  if (!child) return forward_error(child);
  client_ = std::move(*child);
  tcp_port_ = tcp_port;
  return {};
}

Result<double> PerftestRun::finish(const std::function<bool()>& other_ended,
                                   BurnInClock::duration limit, BurnInClock::duration grace) {
  const auto first_has_ended = [&] {
    return has_left(&server_) || has_left(&client_) || other_ended();
  };
  const bool is_short =
      wait_for_ends([this] { return has_ended(); }, first_has_ended, limit, grace);
  ChildProcess* measuring = client_ ? &*client_ : &*server_;
  const bool has_finished = measuring->has_ended();
  const bool is_unconnected = !has_finished && !is_short && lacks_connection();
  if (server_) server_->end();
  if (client_) client_->end();
  const std::string name = name_of(program_);
  if (has_finished) {
    if (measuring->exit_status() == 0) return result_of(*measuring);
    return tl::unexpected(error_of(name + " " + measuring->how_it_ended()));
  }
  if (is_unconnected) {
    return fail(Code::kInvalidUsage,
                fmt::format("{} did not end within {} s, and has no connection with the other "
                            "machine at TCP port {}. Fix: let TCP port {} through the firewall, "
                            "which is the one after that of --burn-in",
                            name, seconds_of(limit), tcp_port_, tcp_port_));
  }
  if (!is_short) {
    return tl::unexpected(
        error_of(fmt::format("{} did not end within {} s", name, seconds_of(limit))));
  }
  return tl::unexpected(
      error_of(fmt::format("{} was ended {} s after the other end", name, seconds_of(grace))));
}

// Where the other end is on another machine, and the kernel's tables can be read. perftest keeps
// its TCP connection until the end.
bool PerftestRun::lacks_connection() const {
  if (server_ && client_) return false;
  const auto table = topo::file_content("/proc/net/tcp");
  if (!table || has_connection(*table, tcp_port_)) return false;
  return !has_connection(topo::file_content("/proc/net/tcp6").value_or(""), tcp_port_);
}

bool PerftestRun::has_ended() {
  return (!server_ || server_->has_ended()) && (!client_ || client_->has_ended());
}

Result<double> PerftestRun::result_of(const ChildProcess& end) const {
  const std::string output = end.output();
  const bool is_bandwidth = program_ == PerftestProgram::kWriteBandwidth;
  Result<double> value = is_bandwidth ? perftest_gbits(output, kPerftestBandwidthBytes)
                                      : perftest_latency_us(output, kPerftestLatencyBytes);
  if (value || !split_fix(value.error().text).fix.empty()) return value;
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

// One run of a program of perftest: the end that listens, the end that connects, or both.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "tools/doctor/burn_in_child.h"
#include "tools/doctor/burn_in_perftest.h"

namespace gdr::tools::doctor {

// How long a program may run. It takes six seconds on an idle machine.
inline constexpr auto kPerftestTimeLimit = std::chrono::seconds(60);
// How long it may take until it listens: it opens the HCA before.
inline constexpr auto kPerftestListenLimit = std::chrono::seconds(30);

// As kBurnInGrace, of PerftestProgram::kProbe: the end that receives has nothing to do but to wait.
inline constexpr auto kPerftestProbeGrace = std::chrono::seconds(2);

class PerftestRun {
 public:
  // start_client() adds the address to the arguments of `client`.
  PerftestRun(PerftestProgram program, ChildSpec server, ChildSpec client)
      : program_(program), server_spec_(std::move(server)), client_spec_(std::move(client)) {}

  // Starts the end that listens; returns once it does.
  Status start_server(int tcp_port, BurnInClock::duration limit = kPerftestListenLimit);
  // Starts the end that connects, which is the one that measures bandwidth.
  Status start_client(const std::string& address, int tcp_port);

  // Waits for the ends, and ends them when the limit has passed, or `grace` after one of them has
  // ended or `other_ended` returned true. Returns Gb/s or microseconds. kInvalidUsage where the
  // other end is on another machine and the two have no TCP connection at the limit.
  Result<double> finish(const std::function<bool()>& other_ended,
                        BurnInClock::duration limit = kPerftestTimeLimit,
                        BurnInClock::duration grace = kBurnInGrace);

 private:
  bool has_ended();
  Result<double> result_of(const ChildProcess& end) const;
  Error error_of(const std::string& how) const;
  bool lacks_connection() const;

  PerftestProgram program_;
  ChildSpec server_spec_, client_spec_;
  std::optional<ChildProcess> server_, client_;
  int tcp_port_ = 0;
};

// Whether a process of this network namespace listens at the TCP port, by a text as that of
// /proc/net/tcp. A connection would show it, too, but perftest takes that for its peer.
bool is_listening(const std::string& proc_net_tcp, int tcp_port);

// Whether the text has a TCP connection from or to the port.
bool has_connection(const std::string& proc_net_tcp, int tcp_port);

// Returns a TCP port that is free now; 0 if there is none.
int free_tcp_port();

}  // namespace gdr::tools::doctor

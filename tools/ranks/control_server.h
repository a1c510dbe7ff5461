// The root of a run's control plane: gathers one frame from each rank and hands all of them back
// to all, round after round. Connections that do not begin with a right Hello are dropped.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "tools/ranks/socket_io.h"

namespace gdr::tools {

class ControlServer {
 public:
  static Result<ControlServer> open(const HostPort& address, int nranks);

  uint16_t port() const { return port_; }

  // Serves what is there, waiting at most timeout_ms for it.
  void serve(int timeout_ms);

  // Rounds finished so far: a sign of life of the whole run.
  uint64_t rounds() const { return rounds_; }

 private:
  struct Peer {
    UniqueFd fd;
    int rank = -1;  // before its Hello
    std::string in;
  };

  ControlServer() = default;
  void accept_peers();
  bool read_peer(Peer& peer);
  bool take_hello(Peer& peer);
  void finish_round();
  void abandon_waiting(const std::string& why);
  Peer* peer_of(int rank);

  UniqueFd listener_;
  uint16_t port_ = 0;
  int nranks_ = 0;
  uint64_t rounds_ = 0;
  std::vector<Peer> peers_;
  std::vector<bool> gone_;  // ranks that came and closed their connection
};

}  // namespace gdr::tools

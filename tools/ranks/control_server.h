// The root of a run's control connections. In each round it collects one frame from every rank and
// sends all of them to every rank. Connections that do not begin with a valid Hello are dropped.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "tools/ranks/socket_io.h"

namespace gdr::tools {

class ControlServer {
 public:
  // `listener` is a listening socket of the caller. Once all ranks have joined, further connections
  // wait in its queue: they may be those of the next run.
  ControlServer(int listener, int nranks, uint32_t run)
      : listener_(listener), nranks_(nranks), run_(run), gone_(nranks) {}

  // Serves pending connections and frames; waits at most timeout_ms for the first.
  void serve(int timeout_ms);

 private:
  struct Peer {
    UniqueFd fd;
    int rank = -1;  // -1 until its Hello has arrived
    std::string in;
    bool abandoned = false;  // it has the reason
  };

  bool all_joined() const;
  void accept_peers();
  bool read_peer(Peer& peer);
  bool take_hello(Peer& peer);
  void finish_round();
  void abandon(const std::string& why);
  Peer* peer_of(int rank);

  int listener_;
  int nranks_;
  uint32_t run_;
  std::vector<Peer> peers_;
  std::vector<bool> gone_;  // ranks that have closed their connection
};

}  // namespace gdr::tools

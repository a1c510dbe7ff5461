// Connects ranks through a plugin: listen, exchange of handles, then connect and accept by polling.
#pragma once

#include <vector>

#include "tools/net/deleters.h"
#include "tools/ranks/rank.h"

namespace gdr::tools {

// One connection, from one rank to another.
struct LinkSpec {
  int from = 0;
  int to = 0;
  int device = -1;  // the plugin's device at both ends; -1: each rank's own
};

// The ends of this rank, in the order of the specs; null where it has no such end.
struct Links {
  std::vector<NetComm> send;
  std::vector<NetComm> recv;
};

// `context` is what init returned. All ranks call this with the same specs. Returns when every rank
// has all its ends.
Result<Links> connect_links(Rank& rank, Net& net, void* context, int dev,
                            const std::vector<LinkSpec>& specs);

}  // namespace gdr::tools

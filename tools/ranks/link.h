// Connects ranks through a plugin: listen, exchange of handles, connect and accept by polling.
#pragma once

#include <vector>

#include "tools/common/deleters.h"
#include "tools/ranks/rank.h"

namespace gdr::tools {

// One connection; data goes one way.
struct LinkSpec {
  int from = 0;
  int to = 0;
  int device = -1;  // of both ends; -1: each rank's own
};

// The ends that this rank holds, in the order of the specs; null where it has no such end.
struct Links {
  std::vector<NetComm> send;
  std::vector<NetComm> recv;
};

// All ranks call this with the same specs; it returns when all of this rank's ends stand.
Result<Links> connect_links(Rank& rank, const abi::ncclNet_v8_t& net, int dev,
                            const std::vector<LinkSpec>& specs);

}  // namespace gdr::tools

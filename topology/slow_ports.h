// Which ports are too slow to be rails, by the bandwidth that the GPUs keep without them.
#pragma once

#include <vector>

#include "topology/path_class.h"
#include "topology/rail_candidate.h"

namespace gdr::topology {

// Excludes slow ports, since the networks of storage and management are slower than that of the
// GPUs. Names: the nearest ports of a GPU are those of its least path class; a GPU's bandwidth is
// the sum of the speeds of its nearest ports, each divided by the number of GPUs that have it among
// their nearest. Ports of one speed are excluded together if that is right for every GPU that loses
// one of its nearest ports:
//
// - If others of its nearest ports remain, one of them has at least twice the speed, and the
//   bandwidth that they give to the GPU is at least that of the excluded ones.
// - If none remains, so that the GPU has to use ports farther away (mostly without GPUDirect), the
//   fastest of these has at least four times the speed, and they give it at least four times the
//   bandwidth that it had.
//
// For GPUs of which this is not right, their ports stay, and the rule is applied to the others.
// Lower speeds come first. Examples:
//
//   25 and 400 Gb/s on the switch of a GPU              25 is excluded
//   25 on the switch of a GPU, 400 on a root port       25 is excluded
//   8 GPUs with 100 each, 400 on a root port            all are kept: that would leave 50 for each
//   4 GPUs; 4 ports of 100 and one of 200, equally far  all are kept: 200 is less than 400
//
// A port counts with the speed of the fastest port that is up on a card of the same model: neither
// one that is down nor one whose link came up at a lower speed than its peers loses its number, so
// that the rails of a machine with such a fault are those of its peers. A port of unknown speed is
// not excluded and counts as no bandwidth, unless it is down, no port of its model is up, and each
// GPU that it is nearest to has a port as near that is up: it is then taken for one of another
// network. Ports that are named or excluded already, and those that
// are nearest to no GPU, are left as they are. A split GPU counts as one.
void exclude_slow_ports(const Machine& machine, const PathTable& paths,
                        std::vector<RailCandidate>* ports);

}  // namespace gdr::topology

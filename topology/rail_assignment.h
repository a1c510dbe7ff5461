// Which GPU uses which of the rails.
#pragma once

#include "topology/rails.h"

namespace gdr::topology {

// Assigns rails to the GPUs of the plan that have none, and leaves the others as they are.
//
// Each GPU gets rails of its nearest path class. GPUs with the same nearest rails divide these so
// that, in this order,
//
// 1. every rail carries as many GPUs as any other, or one more,
// 2. the GPUs have their rails as near as possible, by Distance: sockets are crossed as rarely as
//    can be, then the sum of latencies between NUMA nodes is the least, then that of switches, and
// 3. neighbours stay together: with more rails than GPUs each GPU has a block of rails that follow
//    each other, with fewer each rail has a block of GPUs.
//
// Partitions of a split GPU divide the rails of the card.
//
// Rails that are down are assigned like the others and then taken away, so that the rail of a GPU
// does not depend on another rail's link; only GPUs that have no other rail are assigned again.
void assign_rails(const Machine& machine, const PathTable& paths, RailPlan* plan);

}  // namespace gdr::topology

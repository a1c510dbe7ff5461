// Rails whose links run more slowly than those of their peers.
#pragma once

#include "base/finding.h"
#include "topology/ports.h"
#include "topology/rails.h"

namespace gdr::topology {

// Returns what a port's link runs at in Mb/s, where known; else the speed that NCCL takes; 0 where
// that is unknown, too.
int link_speed(const Machine& machine, PortRef port);

// Adds a warning of FindingKind::kSlowLink for each rail that is slower than the others of its
// model. Ports of one model are compared where their cards are of one maker and their link layers
// are equal: one port of a card can be on InfiniBand and another on Ethernet, which need not have
// one speed.
void warn_of_slow_links(const Machine& machine, const RailPlan& plan, Findings* findings);

}  // namespace gdr::topology

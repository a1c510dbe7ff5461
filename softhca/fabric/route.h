// The switches and routers of the fabric: which packets arrive.
#pragma once

#include "softhca/fabric/shared_layout.h"

namespace softhca {

// Returns true when packets that `from` sends from `from_port` arrive at `to`, a QP of `to_port`,
// by the address vectors of both QPs:
//
// - A switch forwards by LID within a subnet. To a port of another subnet, packets go through a
//   router, to which they are addressed by its own LID or by the FLID of the target. It needs a GRH
//   (IBTA 19.2.4) with a hop limit above 1 (IBTA 8.3.6).
// - The target accepts a GRH that names the GID which its own address vector sends from, or any of
//   its GIDs when that has no GRH.
// - A port that requires a GRH loses packets without one, in both directions.
// - Ethernet knows GIDs only.
bool packets_arrive(const SharedQp& from, const SharedPort& from_port, const SharedQp& to,
                    const SharedPort& to_port);

}  // namespace softhca

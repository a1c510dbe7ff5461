// What the probes of a Recovery are for.
#pragma once

#include <cstdint>

namespace gdr::transport {

// Ordinals of WorkKind::kProbe. The first and the last are writes of wire::kProbeBytes, since paths
// exist that lose large packets alone, as where a switch has a smaller MTU; the others of no bytes.
constexpr uint32_t kReturnProbe = 0;   // shows that a pair that was revived works
constexpr uint32_t kPeerProbe = 1;     // Recovery::probe_peer
constexpr uint32_t kMarker = 2;        // the last work request of a lost pair
constexpr uint32_t kStandbyProbe = 3;  // shows whether a pair that carries nothing works

}  // namespace gdr::transport

// Memory windows in the arena of the process that owns the memory, and the withdrawal of keys
// (IBTA 10.6.7.2, ibv_alloc_mw(3)). Peers invalidate windows, too, by IBV_WR_SEND_WITH_INV.
#pragma once

#include <cstdint>

#include "softhca/fabric/peer.h"

namespace softhca {

// What a request to bind a window asks for.
struct WindowBinding {
  uint32_t index;   // of the window in the table of registrations
  uint32_t key;     // the rkey that it gets
  uint32_t pd;      // of the window
  uint32_t qpn;     // of a window of type 2: the QP that binds it; else 0
  uint32_t region;  // lkey of the region; 0 without one
  uint32_t access;  // ibv_access_flags
  uint64_t address;
  uint64_t length;  // 0 unbinds a window of type 1
};

// Clears the key of a region or window, and waits for the accesses in progress, for at most 2 s:
// one of a process that was killed never ends.
void withdraw(SharedMr& mr);
// withdraw() for a region, unless a window is bound to it: then returns false.
bool withdraw_region(const Peer& owner, SharedMr& region);

// A window of type 1 may be bound again, one of type 2 has to be invalidated before. Returns false
// and changes nothing when the region or its access does not allow the binding.
bool bind_window(const Peer& owner, const WindowBinding& binding);
// Ends the binding of a window of type 2 that was bound on the QP `by`. Returns false when the rkey
// names no such window.
bool invalidate_window(const Peer& owner, uint32_t rkey, const Accessor& by);
// Ends the binding of any window, if it has one.
void unbind_window(const Peer& owner, uint32_t index);

}  // namespace softhca

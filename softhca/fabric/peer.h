// A process on the fabric as this one sees it: its arena, and how to reach its memory. This process
// itself is also a Peer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "softhca/fabric/arena.h"

namespace softhca {

class Peer {
 public:
  Peer(Arena arena, bool self, bool allow_process_vm);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();

  const Arena& arena() const { return arena_; }
  uint32_t slot() const { return arena_.header().slot; }
  uint64_t instance() const { return instance_; }
  bool self() const { return self_; }
  // Returns true when this process can copy to and from its host memory: it is this process, or
  // process_vm_readv and process_vm_writev are allowed.
  bool direct() const { return direct_; }
  int pid() const { return pid_; }

  // Returns false once the process has ended. Probes it at most once a millisecond.
  bool alive();
  void mark_gone() { gone_.store(true); }

  // `number` counts from 1.
  const SharedPort* port(uint32_t device, uint32_t number) const {
    return &arena_.header().ports[device][number - 1];
  }

  // Page-locks the peer's staging area for CUDA, once. Control path.
  void pin_staging();

  // Finds the region that a key names, and takes a reference on it when its PD, its access
  // (ibv_access_flags) and its bounds allow `range`. Returns null otherwise. `address` becomes that
  // of the first byte in the owner's address space.
  SharedMr* acquire(const ibv_sge& range, uint32_t pd, uint32_t access, uint64_t* address) const;
  static void release(SharedMr* mr) { mr->users.fetch_sub(1, std::memory_order_release); }

 private:
  bool probe() const;

  Arena arena_;
  const bool self_;
  bool direct_;
  int pid_;
  uint64_t instance_;
  void* pinned_ = nullptr;
  std::atomic<bool> gone_{false};
  std::atomic<uint64_t> checked_ms_{0};
};

}  // namespace softhca

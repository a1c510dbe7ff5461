// What regMr returns: the registrations of one buffer for one comm.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "transport/device/hca.h"
#include "transport/memory/bounce_buffers.h"
#include "transport/memory/registration_agreement.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

// The registrations of one buffer on the rails of one comm. Deregisters with its destructor, which
// first waits for the copies of its bounce buffer. A comm's data path only reads it.
//
// A buffer is in one of three states:
// - direct, no staging: the HCAs access it by `keys` (host memory, and GPU memory by GPUDirect).
//   Sends larger than `direct_at_most`, the ports' largest message, take several writes.
// - not direct, staging: every message goes through the bounce buffer by `staging_keys`.
// - direct, staging: sends larger than `direct_at_most` go through the bounce buffer, all else is
//   direct (GDR_NCCL_GDR_LIMIT).
// What isend and irecv read comes first, in one cache line for up to four rails.
struct alignas(64) MemoryHandle {
  struct RailKeys {
    uint32_t lkey = 0;
    uint32_t rkey = 0;
  };
  // By rail. All rkeys lie together, as a clear-to-send slot names them, so that irecv copies them
  // as a block.
  class Keys {
   public:
    RailKeys operator[](size_t rail) const { return {lkeys_[rail], rkeys_[rail]}; }
    void set(size_t rail, RailKeys rail_keys) {
      lkeys_[rail] = rail_keys.lkey;
      rkeys_[rail] = rail_keys.rkey;
    }
    const std::array<uint32_t, wire::kMaxRails>& rkeys() const { return rkeys_; }

   private:
    std::array<uint32_t, wire::kMaxRails> rkeys_{};
    std::array<uint32_t, wire::kMaxRails> lkeys_{};
  };
  // Bytes of the largest send that is one write per chunk, from the buffer itself. 0 if `direct` is
  // false.
  size_t direct_at_most = std::numeric_limits<size_t>::max();
  // The CPU can read the buffer, so that small sends can be inline.
  bool host = true;
  // The HCAs access the buffer itself.
  bool direct = true;
  // The buffer's own keys.
  Keys keys{};
  // The bounce buffer and its keys by rail; null if nothing is staged.
  std::unique_ptr<StagedMemory> staging;
  Keys staging_keys{};
  // References into the HCAs' registration caches, of the buffer and of its bounce buffer.
  std::vector<std::pair<std::shared_ptr<HcaContext>, ibv_mr*>> registrations;
  // Where the buffer is one of NCCL's own in GPU memory: keeps its allocation known as such.
  RegistrationAgreement::Own own;

  // Makes room for the registrations of the buffer and of its bounce buffer on that many rails.
  // Without, add() may throw, which leaves its reference to nobody.
  void reserve(size_t rails) { registrations.reserve(2 * rails); }

  // Takes over one reference to `mr`, which is in hca's registration cache: the buffer's own on
  // that rail, or its bounce buffer's. Enters its keys in `to`: &MemoryHandle::keys or
  // staging_keys.
  void add(Keys MemoryHandle::*to, size_t rail, const std::shared_ptr<HcaContext>& hca,
           ibv_mr* mr) {
    registrations.emplace_back(hca, mr);
    (this->*to).set(rail, {mr->lkey, mr->rkey});
  }

  MemoryHandle() = default;
  MemoryHandle(const MemoryHandle&) = delete;
  MemoryHandle& operator=(const MemoryHandle&) = delete;
  ~MemoryHandle() {
    if (staging != nullptr) staging->finish();
    for (auto& [hca, mr] : registrations) hca->registrations().release(mr);
  }
};
static_assert(offsetof(MemoryHandle, keys) + (wire::kMaxRails + 4) * sizeof(uint32_t) <= 64);

}  // namespace gdr::transport

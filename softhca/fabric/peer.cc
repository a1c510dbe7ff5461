#include "softhca/fabric/peer.h"

#include <sys/uio.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "softhca/gpu/copier.h"
#include "softhca/model/clock.h"

namespace softhca {

namespace {

enum class Reach { kYes, kForbidden, kGone };

// Reads the copy of the instance number that the owner keeps in private memory. It differs, or is
// not mapped, when the pid was reused by another process.
Reach reach(const ArenaHeader& header, int pid) {
  uint64_t value = 0;
  iovec local = {&value, sizeof value};
  iovec remote = {reinterpret_cast<void*>(header.instance_address), sizeof value};
  if (process_vm_readv(pid, &local, 1, &remote, 1, 0) == sizeof value) {
    return value == header.instance ? Reach::kYes : Reach::kGone;
  }
  if (errno == EPERM || errno == ENOSYS) return Reach::kForbidden;
  return Reach::kGone;
}

}  // namespace

Peer::Peer(Arena arena, bool self, bool allow_process_vm)
    : arena_(std::move(arena)),
      self_(self),
      direct_(self),
      pid_(static_cast<int>(arena_.header().pid)),
      instance_(arena_.header().instance) {
  if (!self && allow_process_vm) direct_ = reach(arena_.header(), pid_) == Reach::kYes;
}

Peer::~Peer() {
  if (pinned_ != nullptr) GpuCopier::get()->unpin_host(pinned_);
}

void Peer::pin_staging() {
  GpuCopier* copier = GpuCopier::get();
  uint64_t staging = arena_.header().staging.load(std::memory_order_acquire);
  if (pinned_ != nullptr || copier == nullptr || staging == 0) return;
  void* address = arena_.at<void>(staging);
  if (copier->pin_host(address, arena_.header().staging_bytes)) pinned_ = address;
}

bool Peer::probe() const {
  if (arena_.header().alive.load() == 0) return false;
  Reach reached = reach(arena_.header(), pid_);
  if (reached != Reach::kForbidden) return reached == Reach::kYes;
  return kill(pid_, 0) == 0 || errno == EPERM;
}

bool Peer::alive() {
  if (self_) return true;
  if (gone_.load(std::memory_order_relaxed)) return false;
  uint64_t now = coarse_ms();
  if (checked_ms_.load(std::memory_order_relaxed) == now) return true;
  if (!probe()) {
    gone_.store(true);
    return false;
  }
  checked_ms_.store(now, std::memory_order_relaxed);
  return true;
}

SharedMr* Peer::acquire(const ibv_sge& range, uint32_t pd, uint32_t access,
                        uint64_t* address) const {
  if (range.lkey == 0 || (range.lkey >> 24) != (slot() & 0xff)) return nullptr;
  SharedMr& mr = arena_.mr(key_index(range.lkey));
  if (mr.key.load(std::memory_order_relaxed) != range.lkey) return nullptr;
  // Sequentially consistent with withdraw(), which clears the key and then waits for the users:
  // either this thread sees the cleared key, or withdraw() sees this user.
  mr.users.fetch_add(1, std::memory_order_seq_cst);
  uint64_t offset = range.addr - mr.iova;
  if (mr.key.load(std::memory_order_seq_cst) == range.lkey && mr.pd == pd &&
      (mr.access & access) == access && range.addr >= mr.iova && offset <= mr.length &&
      range.length <= mr.length - offset) {
    *address = mr.address + offset;
    return &mr;
  }
  release(&mr);
  return nullptr;
}

}  // namespace softhca

// Registrations of one protection domain, reference-counted by range and kind. Thread-safe: NCCL
// registers from its service threads, of several comms at once, while progress threads move data.
// Registering and deregistering take long (the kernel pins or unpins every page), so both happen
// without the lock: they wait for nobody but a registration in the making that will cover theirs.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "drivers/verbs/handles.h"
#include "transport/device/covering_tree.h"

namespace gdr::transport {

struct MemoryRange {
  uintptr_t address;
  size_t bytes;
};

// Where the pages of a range come from. fd and offset are those of ibv_reg_dmabuf_mr.
struct MemorySource {
  bool dmabuf = false;
  int fd = -1;
  uint64_t offset = 0;
  bool relaxed_ordering = false;
  bool gpu = false;  // GPU memory, by whichever way
};

class RegistrationCache {
 public:
  RegistrationCache(const verbs::Api& api, ibv_pd* pd, std::string device_name);

  // A cached registration that covers the range, or a new one of the page-aligned range. Every
  // acquire is given back by one release, before the memory may be freed; the fd is not kept.
  // Where the verbs library refuses, the error's sys_errno says how.
  Result<ibv_mr*> acquire(MemoryRange range, const MemorySource& source);
  // The last release of a registration returns once it is deregistered.
  void release(ibv_mr* mr);

  size_t size() const;  // registrations that are referenced
  // Of GPU memory that is registered now.
  size_t gpu_bytes() const;

 private:
  // Ranges of different kinds never serve each other.
  struct Key {
    uintptr_t begin;
    uintptr_t end;
    size_t kind;  // below kKinds
    bool operator==(const Key&) const = default;
    bool covers(const Key& other) const {
      return kind == other.kind && begin <= other.begin && end >= other.end;
    }
  };
  static constexpr size_t kKinds = 4;  // dma-buf or not, relaxed ordering or not

  struct Registration : RangeNode {
    Registration(const Key& key, bool of_gpu, verbs::UniqueMr made)
        : RangeNode(key.begin, key.end), kind(key.kind), gpu(of_gpu), mr(std::move(made)) {}
    size_t kind;
    bool gpu;
    verbs::UniqueMr mr;
    int references = 1;
  };
  class Pending;

  Result<Key> key_of(MemoryRange range, const MemorySource& source) const;
  Registration* find_covering(const Key& wanted);
  bool is_pending(const Key& wanted) const;
  Result<verbs::UniqueMr> register_range(const Key& key, const MemorySource& source);

  const verbs::Api& api_;
  ibv_pd* pd_;
  std::string device_name_;
  uintptr_t page_mask_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable pending_ended_;
  std::vector<Key> pending_;  // being registered now, at most one a thread
  std::map<ibv_mr*, Registration> registrations_;
  std::array<CoveringTree, kKinds> ranges_;
};

}  // namespace gdr::transport

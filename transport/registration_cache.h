// Registrations of one protection domain, reference-counted by range and kind. Thread-safe: NCCL
// registers from its service thread while the progress thread moves data.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "base/result.h"
#include "transport/verbs/handles.h"

namespace gdr {

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
  RegistrationCache(const VerbsApi& api, ibv_pd* pd, std::string device_name);

  // A cached registration that covers the range, or a new one of the page-aligned range. Every
  // acquire is given back by one release.
  Result<ibv_mr*> acquire(MemoryRange range, const MemorySource& source);
  void release(ibv_mr* mr);

  size_t size() const;
  // Of GPU memory that is registered now.
  size_t gpu_bytes() const;

 private:
  // Ranges of different kinds never serve each other: {begin, end, dmabuf, relaxed ordering}.
  struct Key {
    uintptr_t begin;
    uintptr_t end;
    bool dmabuf;
    bool relaxed_ordering;
    auto operator<=>(const Key&) const = default;
  };
  struct Entry {
    UniqueMr mr;
    int references = 0;
    bool gpu = false;
  };
  using Entries = std::map<Key, Entry>;

  Entries::iterator find_covering(const Key& wanted);
  Result<UniqueMr> register_range(const Key& key, const MemorySource& source);

  const VerbsApi& api_;
  ibv_pd* pd_;
  std::string device_name_;
  uintptr_t page_mask_;
  mutable std::mutex mutex_;
  Entries entries_;
  std::map<ibv_mr*, Entries::iterator> by_mr_;
};

}  // namespace gdr

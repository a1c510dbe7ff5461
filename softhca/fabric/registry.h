// The members of a fabric: a folder /dev/shm/softhca-<uid>-<fabric> with a table of process slots,
// and a folder for each slot. A process that joins or leaves clears the slots of those that were
// killed.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "softhca/fabric/shared_layout.h"

namespace softhca {

struct RegistrySlot {
  std::atomic<uint32_t> pid;  // 0 while free
  uint32_t reserved;
  uint64_t start_time;     // clock ticks after boot: a reused pid differs in it; 0: unknown
  uint64_t pid_namespace;  // 0: unknown
  uint64_t instance;
};

class Registry {
 public:
  // Claims a slot under the table's file lock. `instance` is a random number that names the process
  // for the fabric's lifetime. Fails with kSystem when /dev/shm is not usable or all slots are
  // taken, and with kInvalidUsage when the table was made by another version of the library.
  static gdr::Result<Registry> join(const std::string& fabric, uint64_t instance);

  Registry(Registry&& other) noexcept;
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;
  Registry& operator=(Registry&&) = delete;
  ~Registry();

  uint32_t slot() const { return slot_; }
  // Returns the path of a slot's folder, which exists while the slot is taken.
  std::string slot_folder(uint32_t slot) const;
  // Returns the instance of the process in a slot, 0 when the slot is free.
  uint64_t instance(uint32_t slot) const;

  // Frees the slot and removes its files; the last process removes the fabric's folder as well.
  void leave();

 private:
  Registry() = default;
  // The file lock is held.
  void clear_dead();

  struct Table;
  std::string folder_;
  int fd_ = -1;
  Table* table_ = nullptr;
  uint32_t slot_ = 0;
};

// Returns true when it is known that the process has ended; a zombie has. `start_time` is field 22
// of /proc/<pid>/stat, which differs between processes that had the same pid, or 0 where that is
// unknown.
bool process_ended(uint32_t pid, uint64_t start_time);

}  // namespace softhca

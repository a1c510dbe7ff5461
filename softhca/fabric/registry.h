// Who is on a fabric: one folder in /dev/shm per user and fabric name, a table of process slots in
// it, and one folder per slot. Slots of dead processes are cleared by the next one to join.
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
  uint64_t start_time;  // clock ticks after boot: a reused pid differs in it
  uint64_t pid_namespace;
  uint64_t instance;
};

class Registry {
 public:
  // Claims a slot; `instance` becomes its identity.
  static gdr::Result<Registry> join(const std::string& fabric, uint64_t instance);

  Registry(Registry&& other) noexcept;
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;
  Registry& operator=(Registry&&) = delete;
  ~Registry();

  uint32_t slot() const { return slot_; }
  // Folder of a slot; it exists while the slot is taken.
  std::string slot_folder(uint32_t slot) const;
  // 0 when the slot is free.
  uint64_t instance(uint32_t slot) const;

  // Gives the slot back and removes its files, and the fabric's when nobody is left.
  void leave();

 private:
  Registry() = default;
  // Under the file lock.
  void clear_dead();

  struct Table;
  std::string folder_;
  int fd_ = -1;
  Table* table_ = nullptr;
  uint32_t slot_ = 0;
};

// True while the process runs (a zombie does not).
bool process_runs(uint32_t pid, uint64_t start_time);

}  // namespace softhca

// Device memory that the CPU cannot touch, and the list of page-locked host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

namespace fake_cuda {

using Address = unsigned long long;

// Addresses come from one reserved range that no CPU access is allowed to, each backed by a memfd
// that the fake maps elsewhere. No address is ever used twice, so stale ones are recognised.
class DeviceMemory {
 public:
  DeviceMemory();

  // 0 when there is no room. is_virtual: as made by the virtual-memory API, for its own device.
  Address allocate(int device, size_t bytes, bool is_virtual);
  bool free(Address address);

  // Virtual memory: a handle holds the backing of an allocation, 0 where that is not virtual.
  uint64_t retain(Address address);
  bool release(uint64_t handle);
  Address reserve(size_t bytes);
  // Backs a reserved range with the handle's memory, out of every device's reach at first.
  bool map(Address address, size_t bytes, uint64_t handle);
  bool set_access(Address address, size_t bytes, int device);
  // The start and size of the block that holds the address.
  std::optional<std::pair<Address, size_t>> extent(Address address);
  // False for virtual memory that `device` was not named for; anything else is reachable.
  bool reachable(Address address, int device);
  size_t live_handles();
  // The owner of [address, address + bytes), or -1.
  int device_of(Address address, size_t bytes);
  // The CPU's view of the memory; null if the address was never the GPU's. Aborts, naming `call`,
  // where the address is the GPU's but not (or no longer) allocated.
  void* view(const char* call, Address address, size_t bytes);
  // A descriptor of the range that cannot be mapped, as with real dma-bufs; -1 if the range is not
  // whole pages of one allocation.
  int export_range(Address address, size_t bytes);

 private:
  struct Block {
    int device;
    int fd;
    size_t asked;   // bytes
    size_t mapped;  // bytes, whole pages of the GPU
    char* view;
    bool is_virtual;
    std::set<int> access;  // devices, of virtual memory
  };
  struct Handle {
    int device;
    int fd;
    size_t mapped;
  };
  Address take_addresses(size_t bytes);
  // A block over `fd`, which it takes; false when it cannot be mapped.
  bool insert(Address address, Block block);
  // The block that holds the range, of `asked` size or, with whole_pages, of `mapped`.
  std::optional<std::pair<Address, Block>> find(Address address, size_t bytes, bool whole_pages);

  std::mutex mutex_;
  std::map<Address, Block> blocks_;
  std::map<uint64_t, Handle> handles_;
  uint64_t next_handle_ = 1;
  Address base_ = 0;
  Address next_ = 0;
};

class PinnedMemory {
 public:
  // False if any of it is page-locked already.
  bool add(const void* address, size_t bytes);
  bool remove(const void* address);
  bool contains(const void* address, size_t bytes);

 private:
  std::mutex mutex_;
  std::map<uintptr_t, size_t> ranges_;
};

DeviceMemory& device_memory();
PinnedMemory& pinned_memory();

}  // namespace fake_cuda

// Device memory at addresses where a CPU access faults, and the list of page-locked host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/unique_fd.h"

namespace fake_cuda {

using Address = unsigned long long;

// Addresses come from one reserved range without any access rights. A memfd backs each allocation,
// and the fake maps it a second time elsewhere. No address is used twice, so that the use of a
// freed one is recognised.
class DeviceMemory {
 public:
  DeviceMemory();

  // Returns 0 if no addresses are left. is_virtual: as made by the virtual-memory API, so that only
  // its own device can access it.
  Address allocate(int device, size_t bytes, bool is_virtual);
  bool free(Address address);

  // Returns a handle that holds the backing memory of a virtual allocation; 0 if it is not virtual.
  uint64_t retain(Address address);
  bool release(uint64_t handle);
  Address reserve(size_t bytes);
  // Backs a reserved range with the handle's memory. At first no device has access.
  bool map(Address address, size_t bytes, uint64_t handle);
  bool set_access(Address address, size_t bytes, int device);
  // Returns the start and size of the block that holds the address.
  std::optional<std::pair<Address, size_t>> extent(Address address);
  // Returns whether `device` can access the memory: false only for virtual memory to which it has
  // no access rights.
  bool reachable(Address address, int device);
  size_t live_handles();
  // Returns the device that owns [address, address + bytes), or -1.
  int device_of(Address address, size_t bytes);
  // Returns the CPU's view of the memory; null if the address is outside the reserved range.
  // Aborts, naming `call`, if it is inside but not (or no longer) allocated.
  void* view(const char* call, Address address, size_t bytes);
  // Returns a file descriptor of the range that cannot be mapped, as with real dma-bufs; -1 if the
  // range is not whole pages of one allocation. Its size is that of the range. Every descriptor of
  // a range is of the same file, so that its inode shows which range it is.
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
  // Adds a block over `fd` and takes ownership of it. Returns false if it cannot be mapped.
  bool insert(Address address, Block block);
  // Returns the block that holds the range: within its `asked` bytes or, with whole_pages, within
  // its `mapped` bytes.
  std::optional<std::pair<Address, Block>> find(Address address, size_t bytes, bool whole_pages);

  std::mutex mutex_;
  std::map<Address, Block> blocks_;
  std::map<std::pair<Address, size_t>, gdr::UniqueFd> exports_;  // by range
  std::map<uint64_t, Handle> handles_;
  uint64_t next_handle_ = 1;
  Address base_ = 0;
  Address next_ = 0;
};

class PinnedMemory {
 public:
  // Returns false if any of the range is page-locked already.
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

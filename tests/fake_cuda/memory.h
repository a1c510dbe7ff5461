// Device memory that the CPU cannot touch, and the list of page-locked host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace fake_cuda {

using Address = unsigned long long;

// Addresses come from one reserved range that no CPU access is allowed to, each backed by a memfd
// that the fake maps elsewhere. No address is ever used twice, so stale ones are recognised.
class DeviceMemory {
 public:
  DeviceMemory();

  // 0 when there is no room.
  Address allocate(int device, size_t bytes);
  bool free(Address address);
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
  };
  // The block that holds the range, of `asked` size or, with whole_pages, of `mapped`.
  std::optional<std::pair<Address, Block>> find(Address address, size_t bytes, bool whole_pages);

  std::mutex mutex_;
  std::map<Address, Block> blocks_;
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

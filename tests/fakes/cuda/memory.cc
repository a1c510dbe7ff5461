#include "tests/fakes/cuda/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "tests/fakes/cuda/rules.h"

namespace fake_cuda {
namespace {

constexpr size_t kArenaBytes = size_t{256} << 30;  // of addresses, not of memory
constexpr size_t kGpuPage = size_t{2} << 20;
constexpr size_t kHostPage = 4096;

}  // namespace

DeviceMemory::DeviceMemory() {
  void* arena =
      mmap(nullptr, kArenaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena == MAP_FAILED) violation("start", "cannot reserve addresses for device memory");
  base_ = reinterpret_cast<Address>(arena);
  next_ = (base_ + kGpuPage - 1) / kGpuPage * kGpuPage;
}

Address DeviceMemory::take_addresses(size_t bytes) {
  size_t mapped = (bytes + kGpuPage - 1) / kGpuPage * kGpuPage;
  if (next_ + mapped + kGpuPage > base_ + kArenaBytes) return 0;
  Address address = next_;
  next_ += mapped + kGpuPage;  // an unused page between catches overruns
  return address;
}

Address DeviceMemory::reserve(size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  return take_addresses(bytes);
}

bool DeviceMemory::insert(Address address, Block block) {
  void* view = mmap(nullptr, block.mapped, PROT_READ | PROT_WRITE, MAP_SHARED, block.fd, 0);
  if (view == MAP_FAILED) {
    close(block.fd);
    return false;
  }
  block.view = static_cast<char*>(view);
  blocks_[address] = block;
  return true;
}

Address DeviceMemory::allocate(int device, size_t bytes, bool is_virtual) {
  std::lock_guard<std::mutex> lock(mutex_);
  size_t mapped = (bytes + kGpuPage - 1) / kGpuPage * kGpuPage;
  Address address = take_addresses(bytes);
  int fd = address == 0 ? -1 : memfd_create("fake-cuda", MFD_CLOEXEC);
  if (fd < 0) return 0;
  if (ftruncate(fd, static_cast<off_t>(mapped)) != 0) {
    close(fd);
    return 0;
  }
  Block block{device, fd, bytes, mapped, nullptr, is_virtual, {device}};
  return insert(address, block) ? address : 0;
}

uint64_t DeviceMemory::retain(Address address) {
  auto found = find(address, 1, true);
  if (!found || !found->second.is_virtual) return 0;
  std::lock_guard<std::mutex> lock(mutex_);
  handles_[next_handle_] =
      Handle{found->second.device, dup(found->second.fd), found->second.mapped};
  return next_handle_++;
}

bool DeviceMemory::release(uint64_t handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = handles_.find(handle);
  if (found == handles_.end()) return false;
  close(found->second.fd);
  handles_.erase(found);
  return true;
}

bool DeviceMemory::map(Address address, size_t bytes, uint64_t handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = handles_.find(handle);
  if (found == handles_.end() || bytes != found->second.mapped) return false;
  return insert(
      address, Block{found->second.device, dup(found->second.fd), bytes, bytes, nullptr, true, {}});
}

bool DeviceMemory::set_access(Address address, size_t bytes, int device) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (Address at = address; at < address + bytes;) {
    auto found = blocks_.find(at);
    if (found == blocks_.end()) return false;
    found->second.access.insert(device);
    at += found->second.mapped;
  }
  return true;
}

std::optional<std::pair<Address, size_t>> DeviceMemory::extent(Address address) {
  auto found = find(address, 1, true);
  if (!found) return std::nullopt;
  return std::make_pair(found->first, found->second.mapped);
}

bool DeviceMemory::reachable(Address address, int device) {
  auto found = find(address, 1, true);
  return !found || !found->second.is_virtual || found->second.access.count(device) != 0;
}

size_t DeviceMemory::live_handles() {
  std::lock_guard<std::mutex> lock(mutex_);
  return handles_.size();
}

bool DeviceMemory::free(Address address) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = blocks_.find(address);
  if (found == blocks_.end()) return false;
  munmap(found->second.view, found->second.mapped);
  close(found->second.fd);
  exports_.erase(exports_.lower_bound({address, 0}),
                 exports_.lower_bound({address + found->second.mapped, 0}));
  blocks_.erase(found);
  return true;
}

std::optional<std::pair<Address, DeviceMemory::Block>> DeviceMemory::find(Address address,
                                                                          size_t bytes,
                                                                          bool whole_pages) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return std::nullopt;
  auto& [start, block] = *std::prev(after);
  size_t size = whole_pages ? block.mapped : block.asked;
  if (address - start >= size || bytes > size - (address - start)) return std::nullopt;
  return std::make_pair(start, block);
}

int DeviceMemory::device_of(Address address, size_t bytes) {
  auto found = find(address, bytes, false);
  return found ? found->second.device : -1;
}

void* DeviceMemory::view(const char* call, Address address, size_t bytes) {
  if (address < base_ || address >= base_ + kArenaBytes) return nullptr;
  auto found = find(address, bytes, false);
  if (!found) violation(call, "device memory that is freed, never allocated or overrun");
  return found->second.view + (address - found->first);
}

int DeviceMemory::export_range(Address address, size_t bytes) {
  auto found = find(address, bytes, true);
  if (!found || address % kHostPage != 0 || bytes % kHostPage != 0 || bytes == 0) return -1;
  std::lock_guard<std::mutex> lock(mutex_);
  gdr::UniqueFd& file = exports_[{address, bytes}];
  if (!file.valid()) file.reset(memfd_create("fake-dmabuf", MFD_CLOEXEC));
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) return -1;
  // Opened for writing only, the file cannot be mapped.
  std::string path = "/proc/self/fd/" + std::to_string(file.get());
  return open(path.c_str(), O_WRONLY | O_CLOEXEC);
}

bool PinnedMemory::add(const void* address, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto start = reinterpret_cast<uintptr_t>(address);
  auto after = ranges_.lower_bound(start);
  if (after != ranges_.end() && after->first < start + bytes) return false;
  if (after != ranges_.begin() && std::prev(after)->first + std::prev(after)->second > start) {
    return false;
  }
  ranges_[start] = bytes;
  return true;
}

bool PinnedMemory::remove(const void* address) {
  std::lock_guard<std::mutex> lock(mutex_);
  return ranges_.erase(reinterpret_cast<uintptr_t>(address)) != 0;
}

bool PinnedMemory::contains(const void* address, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto start = reinterpret_cast<uintptr_t>(address);
  auto after = ranges_.upper_bound(start);
  if (after == ranges_.begin()) return false;
  auto& [first, size] = *std::prev(after);
  return start + bytes <= first + size;
}

DeviceMemory& device_memory() {
  static auto* instance = new DeviceMemory;
  return *instance;
}

PinnedMemory& pinned_memory() {
  static auto* instance = new PinnedMemory;
  return *instance;
}

}  // namespace fake_cuda

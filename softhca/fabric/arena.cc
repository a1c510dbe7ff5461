#include "softhca/fabric/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace softhca {

gdr::Result<Arena> Arena::map(int fd, const std::string& path) {
  void* base =
      mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED) {
    int err = errno;
    close(fd);
    return gdr::fail_errno(gdr::Code::kSystem, "mmap " + path, err);
  }
  madvise(base, kArenaBytes, MADV_DONTFORK);
  return Arena(fd, static_cast<uint8_t*>(base));
}

gdr::Result<Arena> Arena::create(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return gdr::fail_errno(gdr::Code::kSystem, "create " + path, errno);
  if (ftruncate(fd, kArenaBytes) != 0) {
    int err = errno;
    close(fd);
    return gdr::fail_errno(gdr::Code::kSystem, "ftruncate " + path, err);
  }
  gdr::Result<Arena> arena = map(fd, path);
  if (!arena) return arena;
  const int error = posix_fallocate(fd, 0, sizeof(ArenaHeader));
  if (error != 0) return gdr::fail_errno(gdr::Code::kSystem, "reserve " + path, error);
  return arena;
}

gdr::Result<Arena> Arena::open(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return gdr::fail_errno(gdr::Code::kRemote, "open " + path, errno);
  struct stat info = {};
  if (fstat(fd, &info) != 0 || static_cast<uint64_t>(info.st_size) != kArenaBytes) {
    close(fd);
    return gdr::fail(gdr::Code::kRemote, path + " is not an arena");
  }
  return map(fd, path);
}

Arena::Arena(Arena&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), base_(std::exchange(other.base_, nullptr)) {}

Arena::~Arena() {
  if (base_ != nullptr) munmap(base_, kArenaBytes);
  if (fd_ >= 0) close(fd_);
}

bool Arena::reserve(uint64_t offset, uint64_t bytes) const {
  if (bytes == 0) return true;
  const int error = posix_fallocate(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  // The caller of libibverbs gets ENOMEM, for which programs name other reasons.
  static std::atomic_flag reported;
  if (error != 0 && !reported.test_and_set()) {
    fprintf(stderr, "softhca: no memory in /dev/shm: %s. Fix: make it larger, or remove files\n",
            strerror(error));
  }
  return error == 0;
}

void Arena::discard(uint64_t offset, uint64_t bytes) const {
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
}

uint64_t ArenaHeap::allocate(uint64_t bytes) {
  bytes = align_up(bytes, kPage);
  std::lock_guard lock(mutex_);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < bytes) continue;
    auto [offset, room] = *it;
    if (!arena_.reserve(offset, bytes)) return 0;
    free_.erase(it);
    if (room > bytes) free_[offset + bytes] = room - bytes;
    return offset;
  }
  return 0;
}

void ArenaHeap::release(uint64_t offset, uint64_t bytes) {
  if (offset == 0) return;
  bytes = align_up(bytes, kPage);
  arena_.discard(offset, bytes);
  std::lock_guard lock(mutex_);
  auto it = free_.emplace(offset, bytes).first;
  auto next = std::next(it);
  if (next != free_.end() && it->first + it->second == next->first) {
    it->second += next->second;
    free_.erase(next);
  }
  if (it == free_.begin()) return;
  auto before = std::prev(it);
  if (before->first + before->second == it->first) {
    before->second += it->second;
    free_.erase(it);
  }
}

}  // namespace softhca

#include "softhca/datapath/host_copy.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace softhca {

namespace {

constexpr uint64_t kWord = 8;

void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

// Stores 8 bytes after everything stored before them (release order). At an unaligned address they
// may become visible byte by byte.
void store_word(uint8_t* to, const uint8_t* from) {
  if (reinterpret_cast<uintptr_t>(to) % kWord == 0) {
    uint64_t value;
    memcpy(&value, from, kWord);
    __atomic_store_n(reinterpret_cast<uint64_t*>(to), value, __ATOMIC_RELEASE);
    return;
  }
  for (uint64_t i = 0; i < kWord; ++i) __atomic_store_n(to + i, from[i], __ATOMIC_RELEASE);
}

// Copies what comes before the last word. What a program may read while it is written, as entries
// of a table, is short: its words are written whole and in order.
void store_body(uint8_t* to, const uint8_t* from, uint64_t bytes) {
  constexpr uint64_t kShort = 512;
  if (bytes > kShort || (bytes | reinterpret_cast<uintptr_t>(to)) % kWord != 0) {
    memcpy(to, from, bytes);
    return;
  }
  for (uint64_t i = 0; i < bytes; i += kWord) {
    uint64_t value;
    memcpy(&value, from + i, kWord);
    __atomic_store_n(reinterpret_cast<uint64_t*>(to + i), value, __ATOMIC_RELEASE);
  }
}

struct Vectors {
  iovec items[kMaxSge + 1];
  uint32_t first = 0;
  uint32_t count = 0;

  // Leaves out the first `bytes`.
  void drop(uint64_t bytes) {
    while (bytes != 0) {
      iovec& item = items[first];
      const uint64_t part = std::min<uint64_t>(bytes, item.iov_len);
      item.iov_base = static_cast<uint8_t*>(item.iov_base) + part;
      item.iov_len -= part;
      bytes -= part;
      if (item.iov_len == 0) ++first;
    }
  }
};

Vectors vectors_of(const SegmentList& list, bool split_last_word) {
  Vectors vectors;
  for (uint32_t i = 0; i < list.count; ++i) {
    vectors.items[vectors.count++] = {pointer(list.items[i].address), list.items[i].bytes};
  }
  if (vectors.count == 0 || !split_last_word) return vectors;
  iovec& last = vectors.items[vectors.count - 1];
  if (last.iov_len <= kWord) return vectors;
  last.iov_len -= kWord;
  vectors.items[vectors.count++] = {static_cast<uint8_t*>(last.iov_base) + last.iov_len, kWord};
  return vectors;
}

using ProcessCopy = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                                unsigned long);

// The kernel moves less than 2 GiB in one call (MAX_RW_COUNT).
CopyResult across(ProcessCopy copy, const Peer& peer, Vectors local, Vectors remote,
                  uint64_t bytes) {
  for (;;) {
    const ssize_t moved = copy(peer.pid(), local.items + local.first, local.count - local.first,
                               remote.items + remote.first, remote.count - remote.first, 0);
    if (moved == static_cast<ssize_t>(bytes)) return CopyResult::kDone;
    if (moved == 0 || (moved < 0 && errno == EFAULT)) return CopyResult::kFault;
    if (moved < 0) return errno == ESRCH ? CopyResult::kGone : CopyResult::kForbidden;
    bytes -= static_cast<uint64_t>(moved);
    local.drop(static_cast<uint64_t>(moved));
    remote.drop(static_cast<uint64_t>(moved));
  }
}

}  // namespace

void copy_ordered(void* to, const void* from, uint64_t bytes) {
  if (bytes < kWord) {
    memcpy(to, from, bytes);
    return;
  }
  uint64_t body = bytes - kWord;
  auto* target = static_cast<uint8_t*>(to);
  const auto* source = static_cast<const uint8_t*>(from);
  if (body != 0) store_body(target, source, body);
  store_word(target + body, source + body);
}

CopyResult write_host(const Peer& peer, const SegmentList& local, const SegmentList& remote) {
  if (remote.bytes == 0) return CopyResult::kDone;
  if (!peer.self()) {
    return across(process_vm_writev, peer, vectors_of(local, false), vectors_of(remote, true),
                  remote.bytes);
  }
  for_each_piece(remote, local, copy_ordered);
  return CopyResult::kDone;
}

CopyResult read_host(const Peer& peer, const SegmentList& local, const SegmentList& remote) {
  if (remote.bytes == 0) return CopyResult::kDone;
  if (!peer.self()) {
    return across(process_vm_readv, peer, vectors_of(local, true), vectors_of(remote, false),
                  remote.bytes);
  }
  for_each_piece(local, remote, copy_ordered);
  return CopyResult::kDone;
}

}  // namespace softhca

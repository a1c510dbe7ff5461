// Received buffers that arrive in a bounce buffer and are copied on to GPU memory, chunk by chunk
// as they arrive.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "transport/data/connection.h"
#include "transport/data/request.h"
#include "transport/memory/memory_handle.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

// Keyed by the slot of the clear-to-send ring that the buffer has. All but the small inline
// functions are cold: the direct path does not come by.
class StagedReceives {
 public:
  explicit StagedReceives(Connection& connection) : connection_(connection) {}
  // Logs how much was received this way, if anything.
  ~StagedReceives();
  StagedReceives(const StagedReceives&) = delete;
  StagedReceives& operator=(const StagedReceives&) = delete;

  // Whether the slot's buffer is still being copied, so that the slot cannot be used again.
  bool is_busy(uint32_t slot) const {
    return count_ > 0 && slots_->buffers[slot].request != nullptr;
  }
  // Whether copies of whole buffers are under way.
  bool is_copying() const { return copying_begin_ != copying_end_; }

  // Takes charge of buffer `index` of the request, `data` in GPU memory, and names the memory of
  // its BounceBuffer in the slot's clear-to-send.
  [[gnu::cold]] void add(Request* request, int index, void* data, const MemoryHandle& memory,
                         wire::ClearToSend* entry);

  // Launches the copy of what is new: `bytes` of the slot's buffer have arrived, in order.
  // complete: all of it. Returns false where that failed, which fails the connection.
  [[gnu::cold]] bool on_arrival(uint32_t slot, uint64_t bytes, bool complete);

  // Sets *request to that of the oldest complete buffer, if its copies are done, and frees its
  // slot; to null where there is none. Returns false where a copy failed, which fails the
  // connection.
  [[gnu::cold]] bool next_copied(Request** request);

 private:
  struct StagedBuffer {
    Request* request;  // null: free
    const std::byte* host;
    std::byte* gpu;
    CopyStream* stream;
    uint64_t copied;  // bytes whose copy is launched
    uint64_t ticket;  // of the last copy
  };

  // Made by the first add(), as most connections stage nothing and it is larger than all else of a
  // receive comm.
  struct Slots {
    std::array<StagedBuffer, wire::kSlots> buffers{};  // by slot
    // Slots of buffers that have arrived and are being copied, oldest first; the indices count up.
    std::array<uint16_t, wire::kSlots> copying{};
  };

  uint32_t copying_begin_ = 0;  // first, as each poll looks at them
  uint32_t copying_end_ = 0;
  Connection& connection_;
  std::unique_ptr<Slots> slots_;
  int count_ = 0;       // of the buffers that are in use
  uint64_t bytes_ = 0;  // so far
};

}  // namespace gdr::transport

#include "transport/data/staged_receives.h"

#include <new>
#include <utility>

#include "base/log.h"
#include "transport/data/rail_tables.h"

namespace gdr::transport {

// Allocates nothing, since an exception of a destructor ends the process.
StagedReceives::~StagedReceives() {
  if (bytes_ == 0) return;
  GDR_INFO(log::kNet, "%s: received %llu bytes through bounce buffers",
           connection_.link().description().c_str(), static_cast<unsigned long long>(bytes_));
}

void StagedReceives::add(Request* request, int index, void* data, const MemoryHandle& memory,
                         wire::ClearToSend* entry) {
  if (slots_ == nullptr) slots_.reset(new (std::nothrow) Slots);
  if (slots_ == nullptr) {
    connection_.fail(Code::kSystem, "there is no memory for receives through bounce buffers");
    return;
  }
  const StagedMemory& staging = *memory.staging;
  std::byte* host = staging.host(data);
  request->special |= static_cast<uint8_t>(1u << index);
  ++count_;
  slots_->buffers[wire::slot_of(request->first + index)] = {
      request, host, static_cast<std::byte*>(data), staging.stream(), 0, 0};
  entry->address = reinterpret_cast<uint64_t>(host);
  entry->rkey = rkeys_of(memory.staging_keys);
  entry->flags = wire::kChunked;
}

bool StagedReceives::on_arrival(uint32_t slot, uint64_t bytes, bool complete) {
  StagedBuffer& buffer = slots_->buffers[slot];
  if (complete) slots_->copying[copying_end_++ % wire::kSlots] = static_cast<uint16_t>(slot);
  if (bytes == buffer.copied) return true;
  if (bytes < buffer.copied) {
    connection_.fail(Code::kInternal, "a message became shorter while it arrived");
    return false;
  }
  CopyMonitor::DriverCall driver_call(connection_.link().copies());
  Result<uint64_t> ticket = buffer.stream->copy(buffer.gpu + buffer.copied,
                                                buffer.host + buffer.copied, bytes - buffer.copied);
  if (!ticket) [[unlikely]] {
    connection_.fail(ticket.error().code, ticket.error().text);
    return false;
  }
  bytes_ += bytes - buffer.copied;
  connection_.link().counters().count_staged(bytes - buffer.copied);
  buffer.copied = bytes;
  buffer.ticket = *ticket;
  return true;
}

bool StagedReceives::next_copied(Request** request) {
  *request = nullptr;
  if (!is_copying()) return true;
  StagedBuffer& oldest = slots_->buffers[slots_->copying[copying_begin_ % wire::kSlots]];
  CopyMonitor::DriverCall driver_call(connection_.link().copies());
  Result<bool> done = oldest.stream->done(oldest.ticket);
  if (!done) [[unlikely]] {
    connection_.fail(done.error().code, done.error().text);
    return false;
  }
  connection_.link().copies().set_awaits_copy(!*done);
  if (!*done) return true;
  ++copying_begin_;
  --count_;
  *request = std::exchange(oldest.request, nullptr);
  return true;
}

}  // namespace gdr::transport

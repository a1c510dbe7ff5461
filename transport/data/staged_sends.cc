#include "transport/data/staged_sends.h"

#include <algorithm>
#include <new>

#include "base/log.h"

namespace gdr::transport {

// Allocates nothing, since an exception of a destructor ends the process.
StagedSends::~StagedSends() {
  if (bytes_ == 0) return;
  GDR_INFO(log::kNet, "%s: sent %llu bytes through bounce buffers",
           connection_.link().description().c_str(), static_cast<unsigned long long>(bytes_));
}

bool StagedSends::start(const OutgoingMessage& message, const QueuePair& pair, const void* data,
                        const MemoryHandle& memory) {
  if (sends_ == nullptr) sends_.reset(new (std::nothrow) std::array<StagedSend, kMaxStaged>{});
  if (sends_ == nullptr) {
    connection_.fail(Code::kSystem, "there is no memory for sends through bounce buffers");
    return false;
  }
  StagedSend send{
      .message = message,
      .pair = &pair,
      .keys = memory.staging_keys,
      .stream = memory.staging->stream(),
      .posted = 0,
      .first_ticket = 0,
  };
  std::byte* to = memory.staging->host(data);
  const auto* from = static_cast<const std::byte*>(data);
  CopyMonitor::DriverCall driver_call(connection_.link().copies());
  for (size_t done = 0; done < message.bytes; done += message.chunks.bytes) {
    const size_t part = std::min(message.chunks.bytes, message.bytes - done);
    Result<uint64_t> ticket = send.stream->copy(to + done, from + done, part);
    if (!ticket) [[unlikely]] {
      connection_.fail(ticket.error().code, ticket.error().text);
      return false;
    }
    if (done == 0) send.first_ticket = *ticket;
  }
  bytes_ += message.bytes;
  connection_.link().counters().count_staged(message.bytes);
  (*sends_)[end_++ % kMaxStaged] = send;
  return true;
}

bool StagedSends::next_copied(StagedSend** ready) {
  *ready = nullptr;
  if (empty()) return true;
  StagedSend& oldest = (*sends_)[begin_ % kMaxStaged];
  CopyMonitor::DriverCall driver_call(connection_.link().copies());
  Result<bool> copied = oldest.stream->done(oldest.first_ticket + oldest.posted);
  if (!copied) [[unlikely]] {
    connection_.fail(copied.error().code, copied.error().text);
    return false;
  }
  connection_.link().copies().set_awaits_copy(!*copied);
  if (*copied) *ready = &oldest;
  return true;
}

void StagedSends::mark_posted() {
  StagedSend& oldest = (*sends_)[begin_ % kMaxStaged];
  if (++oldest.posted == oldest.message.chunks.count) ++begin_;
}

}  // namespace gdr::transport

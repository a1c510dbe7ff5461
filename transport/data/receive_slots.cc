#include "transport/data/receive_slots.h"

#include <algorithm>
#include <utility>

namespace gdr::transport {
namespace {

constexpr char kSizeTwice[] = "a message states its size and has bytes or chunks beside that";
constexpr char kUnexpectedData[] = "data arrived for a receive that is not posted";

}  // namespace

ReceiveSlots::ReceiveSlots(Connection& connection)
    : connection_(connection),
      events_(connection.options().observer.posted != nullptr ? wire::kSlots : 0) {}

void ReceiveSlots::take_coded(const ibv_wc& wc, uint32_t epoch) {
  take(wire::decode(be32toh(wc.imm_data)), wc, epoch);
}

void ReceiveSlots::take(const wire::Immediate& imm, const ibv_wc& wc, uint32_t epoch) {
  Request* request = slots_[imm.slot];
  if (request == nullptr) return fail(kUnexpectedData);
  const uint32_t buffer = (imm.slot - wire::slot_of(request->first)) % wire::kSlots;
  if (wire::stamp_of(request->first + buffer, epoch) != imm.stamp) return fail(kUnexpectedData);
  uint64_t& bytes = request->bytes[buffer];
  if (imm.size_is_coded) {
    bytes = wire::size_of_code(imm.size_code, request->capacity[buffer]);
    if (wc.byte_len != 0 || request->chunks_seen[buffer] != 0) return fail(kSizeTwice);
  } else {
    bytes = imm.size_in_table ? load_hca_written(tables_->sizes[imm.slot]) : bytes + wc.byte_len;
  }
  if (bytes > request->capacity[buffer]) {
    return fail("more data arrived than the receive has room for");
  }
  if (++request->chunks_seen[buffer] != imm.chunks) return;
  slots_[imm.slot] = nullptr;
  if (request->observed) [[unlikely]] {
    connection_.options().observer.end(std::exchange(events_[imm.slot], nullptr));
    request->observed = request->pending > 1;
  }
  complete_buffer(request);
}

// Where the size of a message is in the table, its chunks count equal parts, and the one that
// arrives last what is left, so that the sum is right.
uint64_t ReceiveSlots::chunk_bytes(const ibv_wc& wc) const {
  const uint32_t bits = be32toh(wc.imm_data);
  if (bits >> 31 == 0) [[likely]]
    return wc.byte_len;
  const wire::Immediate imm = wire::decode(bits);
  const Request* request = slots_[imm.slot];
  if (request == nullptr) return 0;
  const uint32_t buffer = (imm.slot - wire::slot_of(request->first)) % wire::kSlots;
  if (imm.size_is_coded) return wire::size_of_code(imm.size_code, request->capacity[buffer]);
  const uint64_t all = load_hca_written(tables_->sizes[imm.slot]);
  const uint64_t part = all / imm.chunks;
  const bool last = request->chunks_seen[buffer] + 1u == imm.chunks;
  return last ? all - part * (imm.chunks - 1) : part;
}

uint64_t ReceiveSlots::oldest_incomplete() const {
  uint64_t buffer = head_ - std::min<uint64_t>(head_, wire::kSlots);
  while (buffer < head_ && slots_[wire::slot_of(buffer)] == nullptr) ++buffer;
  return buffer;
}

void ReceiveSlots::observe(Request* request, uint64_t buffer, void* event) {
  request->observed = true;
  events_[wire::slot_of(buffer)] = event;
}

void ReceiveSlots::end_observation() {
  for (void*& event : events_) connection_.options().observer.end(std::exchange(event, nullptr));
}

void ReceiveSlots::fail(const char* what) { connection_.fail(Code::kInternal, what); }

}  // namespace gdr::transport

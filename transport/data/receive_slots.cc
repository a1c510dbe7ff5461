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

uint64_t ReceiveSlots::take_coded(const ibv_wc& wc, uint32_t epoch) {
  return take(wire::decode(be32toh(wc.imm_data)), wc, epoch);
}

// Where the size of a message is in the table, its chunks count equal parts, and the first one that
// arrives what is left, so that the sum is right.
uint64_t ReceiveSlots::take(const wire::Immediate& imm, const ibv_wc& wc, uint32_t epoch) {
  Request* request = slots_[imm.slot];
  if (request == nullptr) return fail(kUnexpectedData);
  const uint32_t buffer = (imm.slot - wire::slot_of(request->first)) % wire::kSlots;
  if (wire::stamp_of(request->first + buffer, epoch) != imm.stamp) return fail(kUnexpectedData);
  uint64_t& bytes = request->bytes[buffer];
  uint64_t brought = wc.byte_len;
  if (imm.size_is_coded) {
    if (brought != 0 || request->chunks_seen[buffer] != 0) return fail(kSizeTwice);
    brought = bytes = wire::size_of_code(imm.size_code, request->capacity[buffer]);
  } else if (imm.size_in_table) {
    bytes = load_hca_written(tables_->sizes[imm.slot]);
    brought = bytes / imm.chunks + (request->chunks_seen[buffer] == 0 ? bytes % imm.chunks : 0);
  } else {
    bytes += brought;
  }
  if (bytes > request->capacity[buffer]) {
    return fail("more data arrived than the receive has room for");
  }
  if (++request->chunks_seen[buffer] != imm.chunks) return brought;
  slots_[imm.slot] = nullptr;
  if (request->observed) [[unlikely]] {
    connection_.options().observer.end(std::exchange(events_[imm.slot], nullptr));
    request->observed = request->pending > 1;
  }
  complete_buffer(request);
  return brought;
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

uint64_t ReceiveSlots::fail(const char* what) {
  connection_.fail(Code::kInternal, what);
  return 0;
}

}  // namespace gdr::transport

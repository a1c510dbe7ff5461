// C35 and C36: receives whose completion NCCL does not need.
#include <deque>

#include "tools/conformance/case.h"
#include "tools/conformance/exchange.h"

namespace gdr::tools {
namespace {
// LL and LL128 send lines with flags in slots of this order of magnitude.
constexpr size_t kLargest = 16 << 10;

// A receive that may be complete, for the plugin, before its data is there.
struct Receive {
  MessageBuffer buffer;
  Pattern pattern;
  size_t message_bytes;
  const Op* op;

  bool arrived() const {
    return pattern.first_mismatch(buffer.data(), message_bytes) == message_bytes;
  }
};

std::vector<size_t> message_sizes(Session& s, size_t count) {
  std::vector<size_t> sizes;
  for (size_t i = 0; i < count; ++i) sizes.push_back(8 + s.random().below(kLargest - 8));
  return sizes;
}

// NCCL looks for the flags in the data and calls nothing meanwhile, so the data of a completed
// receive arrives without further calls.
void wait_for_data(Session& s, const Receive& receive, size_t index) {
  Deadline deadline(s, s.options().timeout_seconds);
  while (!receive.arrived()) {
    s.require(deadline.wait(),
              "the data of receive {}, which was posted with 0x1 in *request and has completed, "
              "did not arrive",
              index);
  }
}

void check(Session& s, const Receive& receive, size_t index) {
  if (receive.op->optional_completion) {
    wait_for_data(s, receive, index);
  } else {
    s.require(receive.arrived() && receive.op->actual[0] == static_cast<int>(receive.message_bytes),
              "receive {}, whose *request was null, completed with size {} before its {} bytes "
              "were there",
              index, receive.op->actual[0], receive.message_bytes);
  }
  std::string damage = receive.buffer.damage(receive.message_bytes);
  s.require(damage.empty(), "{}", damage);
}

void send_all(Session& s, const TestConnection& connection, const std::vector<size_t>& sizes) {
  std::deque<MessageBuffer> buffers;
  Traffic traffic(s, {});
  for (size_t i = 0; i < sizes.size(); ++i) {
    MessageBuffer& buffer = buffers.emplace_back(s, connection, sizes[i]);
    Pattern(s.options().seed, 35, i).fill(buffer.data(), sizes[i]);
    traffic.add(buffer.op());
  }
  traffic.run();
  // The memory of a send may be used again once it has completed, and this ends with the case; the
  // receiver may still wait for data then.
  s.meet("all data has arrived");
}

// Posts as many receives as the plugin takes before any message is sent, so that some are refused
// and posted again, with the value of *request that NCCL sets each time.
void optional_completion(Session& s) {
  constexpr size_t kMessages = 100;
  s.open();
  s.need(s.contract().optional_receive_completion, "receive whose completion is optional");
  TestConnection connection = open_connection(s, 0, 1);
  std::vector<size_t> sizes = message_sizes(s, kMessages);
  if (s.rank() == 0) {
    s.meet("receives are posted");
    send_all(s, connection, sizes);
    return;
  }
  std::deque<Receive> receives;
  TrafficStyle style;
  style.overrun = true;
  Traffic traffic(s, style);
  for (size_t i = 0; i < kMessages; ++i) {
    Receive& made =
        receives.emplace_back(Receive{MessageBuffer(s, connection, kLargest),
                                      Pattern(s.options().seed, 35, i), sizes[i], nullptr});
    Op op = made.buffer.op();
    op.optional_completion = i % 3 != 0;
    made.op = &traffic.add(op);
  }
  for (int round = 0; round < 20; ++round) traffic.post_all();
  s.meet("receives are posted");
  traffic.run();
  for (size_t i = 0; i < kMessages; ++i) check(s, receives[i], i);
  s.meet("all data has arrived");
}
}  // namespace

ConformanceCases completion_cases() {
  return {
      {"C35-optional-completion",
       "irecv (v9) with 0x1 in *request returns a request that test completes, or null to be "
       "called again; the data arrives also where the request completes before it",
       2, &optional_completion},
  };
}

}  // namespace gdr::tools

// Several rails whose pairs a test loses at a chosen moment of a message.
#pragma once

#include <string>
#include <vector>

#include "tests/unit/transport/rails_pair.h"

namespace gdr::transport {

// A message long enough for two rails, and the chunks that it has there.
inline constexpr size_t kTwoRailBytes = 4 << 20;
inline constexpr int kTwoRailChunks = 8;

struct SpreadRails : RailsPair {
  using RailsPair::RailsPair;

  // What the sender has posted that ends a chunk, on one of its pairs or on all.
  std::vector<fake_verbs::Posted> chunks(int on_pair = -1) {
    std::vector<fake_verbs::Posted> some;
    for (const fake_verbs::Posted& work : verbs.posted()) {
      const WorkId id = decode_work_id(work.wr_id);
      const bool is_end = work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
      if (is_end && id.kind == WorkKind::kChunk && (on_pair < 0 || int(id.pair) == on_pair)) {
        some.push_back(work);
      }
    }
    return some;
  }
  // So many work requests of the sender's pair are executed, and the next one fails.
  void lose_after(int pair, int delivered, bool arrives = false) {
    const uint32_t qp = qp_number(*sender, pair);
    EXPECT_EQ(verbs.deliver_on(qp, delivered), delivered);
    verbs.fail_transfer(IBV_WC_RETRY_EXC_ERR, 0, arrives);
    EXPECT_EQ(verbs.deliver_on(qp), 1);
  }
};

// One message over several rails, whose bytes differ from each other.
struct SpreadMessage {
  // Posts the receive. It is null where no pair announces it, as irecv() says.
  SpreadMessage(SpreadRails& over, size_t bytes)
      : pair(over), from(pair.sender_buffer(bytes)), to(pair.receiver_buffer(bytes)) {
    fill(from);
    receive = pair.irecv(to);
  }
  // The fabric holds back what is posted, so that a test can deliver part of it.
  void send_held() {
    pair.verbs.hold();
    send = pair.isend(from);
  }
  void send_held_and_observed() {
    pair.verbs.hold();
    EXPECT_TRUE(pair.sender->isend_observed(from.data(), from.bytes.size(), 0, *from.memory,
                                            &parent, &send));
  }
  // Delivers what is held back, and waits until both ends have completed the message.
  testing::AssertionResult arrives() {
    pair.verbs.release();
    if (send == nullptr || receive == nullptr || !pair.finish_both(send, receive)) {
      return testing::AssertionFailure()
             << "the message is not completed: " << failure_of(*pair.sender).text << " "
             << failure_of(*pair.receiver).text;
    }
    if (from.bytes != to.bytes) return testing::AssertionFailure() << "the bytes are wrong";
    return testing::AssertionSuccess();
  }

  SpreadRails& pair;
  Buffer from;
  Buffer to;
  Request* receive = nullptr;
  Request* send = nullptr;
  int parent = 0;  // what isend_observed() passes on
};

}  // namespace gdr::transport

// Groups on a connection that chains their messages.
#pragma once

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/transport/spread_rails.h"

namespace gdr::transport {

// The messages of a grouped receive, of kBytes each, whose tags count from 0.
template <class Pair>
struct GroupedMessages {
  static constexpr size_t kBytes = 100;  // more than are sent inline

  template <class... Args>
  explicit GroupedMessages(Args&&... args) : pair(std::forward<Args>(args)...) {}

  Request* irecv(int count) {
    std::vector<ReceiveBuffer> group;
    for (int i = 0; i < count; ++i) {
      group.push_back({to.data() + static_cast<size_t>(i) * kBytes, kBytes, i, to.memory.get()});
    }
    return pair.irecv(group);
  }
  // What sender->isend() returns as the request.
  Request* try_isend(int tag) {
    Request* request = nullptr;
    EXPECT_TRUE(pair.sender->isend(filled(tag), kBytes, tag, *from.memory, &request));
    return request;
  }
  void isend(int tag) {
    sends.push_back(try_isend(tag));
    ASSERT_NE(sends.back(), nullptr) << tag;
  }
  // Polls both ends until the comm takes the message.
  void isend_soon(int tag) {
    Request* send = nullptr;
    ASSERT_TRUE(pair.poll_until([&] { return (send = try_isend(tag)) != nullptr; }));
    sends.push_back(send);
  }
  void isend_up_to(int count) {
    for (int tag = static_cast<int>(sends.size()); tag < count; ++tag) isend(tag);
  }
  // Of a comm that is observed.
  void isend_observed(int tag, void* parent) {
    Request* request = nullptr;
    EXPECT_TRUE(
        pair.sender->isend_observed(filled(tag), kBytes, tag, *from.memory, parent, &request));
    ASSERT_NE(request, nullptr) << tag;
    sends.push_back(request);
  }
  // Tests the sends and the receive as two ranks would. Returns whether all are done.
  bool all_arrive(Request* receive) {
    std::vector<Request*> left = std::exchange(sends, {});
    left.push_back(receive);
    const bool done = wait_for([&] {
      std::erase_if(left, [](Request* request) { return test_once(request).done; });
      return left.empty() || link().failed();
    });
    return done && left.empty();
  }
  void expect_all_done() {
    for (size_t i = 0; i < sends.size(); ++i) EXPECT_TRUE(finish(sends[i]).done) << i;
    sends.clear();
  }
  void expect_all_failed() {
    for (Request* send : sends) EXPECT_FALSE(finish(send).alive);
  }
  void expect_bytes(int count) {
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(std::string(to.data() + static_cast<size_t>(i) * kBytes, kBytes),
                std::string(kBytes, static_cast<char>('a' + i)));
    }
  }

  PeerLink& link() { return pair.sender->connection().link(); }

  Pair pair;
  Buffer from = pair.sender_buffer(wire::kMaxGroup * kBytes);
  Buffer to = pair.receiver_buffer(wire::kMaxGroup * kBytes);
  std::vector<Request*> sends;

 private:
  char* filled(int tag) {
    char* data = from.data() + static_cast<size_t>(tag) * kBytes;
    std::memset(data, 'a' + tag, kBytes);
    return data;
  }
};

// One active rail and one that stands by, and nothing to do for the recovery.
struct GroupsWithStandby : GroupedMessages<SpreadRails> {
  explicit GroupsWithStandby(const TransportOptions& options = test_options(),
                             const RailHcas& hcas = {})
      : GroupedMessages(1, 1, options, local_socket_pair(), hcas) {
    EXPECT_TRUE(pair.poll_until([&] { return !link().needs_attention(); }));
    pair.exchange({8});
    EXPECT_TRUE(pair.poll_until([&] { return !link().needs_attention(); }));
    pair.verbs.forget_posted();
  }

  // What was posted on the sender's pairs, or on one of them, the recovery's own requests aside.
  std::vector<fake_verbs::Posted> posted(int on_pair = -1) {
    std::vector<fake_verbs::Posted> some;
    std::ranges::copy_if(pair.verbs.posted(), std::back_inserter(some), [&](const auto& work) {
      const WorkId id = decode_work_id(work.wr_id);
      return id.kind == WorkKind::kChunk && (on_pair < 0 || static_cast<int>(id.pair) == on_pair);
    });
    return some;
  }
};

}  // namespace gdr::transport

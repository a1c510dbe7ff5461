// A stream of messages between two ends, driven as NCCL's proxy drives the channels or peers that
// share a connection (src/transport/net.cc, sendProxyProgress and recvProxyProgress): one receive
// has a buffer for each of them, and each has sends and requests of its own.
#pragma once

#include <array>

#include "tools/perf/endpoint.h"

namespace gdr::tools {

struct StreamShape {
  size_t bytes = 0;     // of a message
  size_t messages = 0;  // in the whole run: a multiple of `group`
  size_t depth = 1;     // most groups in flight; up to abi::kMaxRequests
  size_t slots = 1;     // parts of the buffer that messages use in turn; `group` at least
  size_t group = 1;     // messages of one receive, up to abi::kMaxRecvs

  // Bytes from one slot to the next: whole pages.
  size_t stride() const { return (bytes + 4095) / 4096 * 4096; }
};

// Requests are posted up to the depth, posted again while the plugin returns none, and tested
// oldest first. hooks.before_post(address, message) is called before the first attempt to post and
// hooks.after_done(address, message, bytes) after each completion; the messages of a receiver,
// which alone looks at the data, have their numbers there.
template <class Hooks>
class MessageStream {
 public:
  MessageStream(const Endpoint& end, const StreamShape& shape, StallGuard& guard, Hooks& hooks)
      : end_(end),
        shape_(shape),
        guard_(guard),
        hooks_(hooks),
        lane_count_(end.sends ? shape.group : 1) {
    for (size_t i = 0; i < lane_count_; ++i) lanes_[i].post_slot = lanes_[i].done_slot = i;
  }

  // Fails when a table entry fails or when there is no progress for the rank's patience.
  Status run() {
    guard_.progress();
    while (completed_ < shape_.messages) {
      moved_ = false;
      for (size_t i = 0; i < lane_count_; ++i) {
        if (Status step = advance(lanes_[i], i); !step) return step;
      }
      if (moved_) {
        guard_.progress();
      } else if (!guard_.keep_waiting()) {
        return fail(
            Code::kRemote,
            fmt::format("gave up waiting: {} of {} messages of {} bytes {}, in groups of {}",
                        completed_, shape_.messages, shape_.bytes, end_.sends ? "sent" : "received",
                        shape_.group));
      }
    }
    return {};
  }

 private:
  // The sends of one member of the groups, or all receives. Slots are stepped through instead of
  // computed from the message by division, which costs more than a test() without a completion.
  struct Lane {
    RequestQueue requests;
    size_t prepared = 0;  // groups whose hooks have been called before a first attempt to post
    size_t post_slot = 0;
    size_t done_slot = 0;
  };

  size_t after(size_t slot, size_t by) const {
    return slot + by < shape_.slots ? slot + by : slot + by - shape_.slots;
  }
  char* address(size_t slot) const { return end_.data + slot * shape_.stride(); }

  // A sender's lane of a group either posts or tests in a pass; all others do both.
  Status advance(Lane& lane, size_t member) {
    RequestQueue& requests = lane.requests;
    const size_t groups = shape_.messages / shape_.group;
    if (requests.posted() < groups && requests.in_flight() < shape_.depth) {
      prepare(lane, member, end_.sends ? 1 : shape_.group);
      void* request = nullptr;
      const auto result = end_.sends ? send(lane, member, &request) : receive(lane, &request);
      if (result != abi::ncclSuccess) {
        return entry_failed(end_.sends ? "isend" : "irecv",
                            requests.posted() * shape_.group + member, result);
      }
      if (requests.push(request)) {
        lane.post_slot = after(lane.post_slot, shape_.group);
        moved_ = true;
        if (end_.sends && shape_.group > 1) return {};
      }
    }
    if (requests.in_flight() == 0) return {};
    int sizes[abi::kMaxRecvs] = {};
    auto done = requests.test(*end_.net, sizes);
    if (!done) return forward_error(done);
    if (*done) complete(lane, sizes);
    return {};
  }

  // Calls the hook for the next messages of a lane, unless they have been attempted before.
  void prepare(Lane& lane, size_t member, size_t messages) {
    if (lane.prepared != lane.requests.posted()) return;
    const size_t first = lane.prepared++ * shape_.group + member;
    for (size_t i = 0; i < messages; ++i) {
      hooks_.before_post(address(after(lane.post_slot, i)), first + i);
    }
  }

  abi::ncclResult_t send(Lane& lane, size_t member, void** request) {
    return end_.post(address(lane.post_slot), shape_.bytes, request, static_cast<int>(member));
  }

  abi::ncclResult_t receive(Lane& lane, void** request) {
    void *data[abi::kMaxRecvs], *handles[abi::kMaxRecvs], *phandles[abi::kMaxRecvs] = {};
    size_t sizes[abi::kMaxRecvs];
    int tags[abi::kMaxRecvs];
    for (size_t i = 0; i < shape_.group; ++i) {
      data[i] = address(after(lane.post_slot, i));
      sizes[i] = shape_.bytes;
      tags[i] = static_cast<int>(i);
      handles[i] = end_.mhandle;
    }
    return end_.net->irecv(end_.comm, static_cast<int>(shape_.group), data, sizes, tags, handles,
                           phandles, request);
  }

  void complete(Lane& lane, const int* sizes) {
    const size_t messages = end_.sends ? 1 : shape_.group;
    for (size_t i = 0; i < messages; ++i, ++completed_) {
      hooks_.after_done(address(after(lane.done_slot, i)), completed_, sizes[i]);
    }
    lane.done_slot = after(lane.done_slot, shape_.group);
    moved_ = true;
  }

  const Endpoint& end_;
  const StreamShape& shape_;
  StallGuard& guard_;
  Hooks& hooks_;
  size_t lane_count_;
  std::array<Lane, abi::kMaxRecvs> lanes_;
  size_t completed_ = 0;  // messages
  bool moved_ = false;    // in this pass
};

}  // namespace gdr::tools

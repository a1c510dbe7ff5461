// A stream of messages of grouped receives, driven as NCCL's proxy drives the channels or peers
// that share a connection (src/transport/net.cc, sendProxyProgress and recvProxyProgress): one
// receive has a buffer for each, and each has sends and requests of its own.
#pragma once

#include <array>

#include "tools/perf/endpoint.h"

namespace gdr::tools {

// The position of an end in its stream of groups.
struct GroupProgress {
  size_t groups;         // in the whole run
  size_t prepared = 0;   // groups whose hooks have been called before a first attempt to post
  size_t posted = 0;     // groups
  size_t completed = 0;  // groups
  void* in_flight[abi::kMaxRequests] = {};

  void** free_request() { return &in_flight[posted % abi::kMaxRequests]; }
  void* oldest() const { return in_flight[completed % abi::kMaxRequests]; }
};

// Ends of a stream as run_stream() has them; shape.group is from 1 to abi::kMaxRecvs, and
// shape.messages a multiple of it. shape.depth counts groups in flight.
template <class Hooks>
class GroupedStream {
 public:
  GroupedStream(const Endpoint& end, const StreamShape& shape, StallGuard& guard, Hooks& hooks)
      : end_(end), shape_(shape), guard_(guard), hooks_(hooks) {
    members_.fill(GroupProgress{.groups = shape.messages / shape.group});
  }

  Status run() {
    guard_.progress();
    while (completed_ < shape_.messages) {
      moved_ = false;
      Status step = end_.sends ? send_pass() : receive_pass();
      if (!step) return step;
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
  char* address(size_t message) const {
    return end_.data + message % shape_.slots * shape_.stride();
  }
  bool may_post(const GroupProgress& member) const {
    return member.posted < member.groups && member.posted - member.completed < shape_.depth;
  }

  // Each member of the group either sends or tests in a pass.
  Status send_pass() {
    for (size_t i = 0; i < shape_.group; ++i) {
      GroupProgress& member = members_[i];
      const size_t message = member.posted * shape_.group + i;
      if (may_post(member)) {
        if (member.prepared == member.posted) {
          hooks_.before_post(address(message), message);
          ++member.prepared;
        }
        void** request = member.free_request();
        const auto result = end_.post(address(message), shape_.bytes, request, static_cast<int>(i));
        if (result != abi::ncclSuccess) return entry_failed("isend", message, result);
        if (*request != nullptr) {
          ++member.posted;
          moved_ = true;
          continue;
        }
      }
      if (member.completed == member.posted) continue;
      int done = 0, bytes = 0;
      const auto result = end_.net->test(member.oldest(), &done, &bytes);
      if (result != abi::ncclSuccess) return entry_failed("test", message, result);
      if (done == 0) continue;
      ++member.completed;
      moved_ = true;
      hooks_.after_done(nullptr, completed_, bytes);  // in the order of completion
      ++completed_;
    }
    return {};
  }

  Status receive_pass() {
    GroupProgress& group = members_[0];
    if (may_post(group)) {
      if (Status posted = receive(group); !posted) return posted;
    }
    if (group.completed == group.posted) return {};
    int done = 0, sizes[abi::kMaxRecvs] = {};
    const auto result = end_.net->test(group.oldest(), &done, sizes);
    if (result != abi::ncclSuccess) return entry_failed("test", completed_, result);
    if (done == 0) return {};
    ++group.completed;
    moved_ = true;
    for (size_t i = 0; i < shape_.group; ++i, ++completed_) {
      hooks_.after_done(address(completed_), completed_, sizes[i]);
    }
    return {};
  }

  Status receive(GroupProgress& group) {
    void *data[abi::kMaxRecvs], *handles[abi::kMaxRecvs], *phandles[abi::kMaxRecvs] = {};
    size_t sizes[abi::kMaxRecvs];
    int tags[abi::kMaxRecvs];
    for (size_t i = 0; i < shape_.group; ++i) {
      data[i] = address(group.posted * shape_.group + i);
      sizes[i] = shape_.bytes;
      tags[i] = static_cast<int>(i);
      handles[i] = end_.mhandle;
    }
    void** request = group.free_request();
    *request = nullptr;
    const auto result = end_.net->irecv(end_.comm, static_cast<int>(shape_.group), data, sizes,
                                        tags, handles, phandles, request);
    if (result != abi::ncclSuccess) return entry_failed("irecv", completed_, result);
    if (*request == nullptr) return {};
    ++group.posted;
    moved_ = true;
    return {};
  }

  const Endpoint& end_;
  const StreamShape& shape_;
  StallGuard& guard_;
  Hooks& hooks_;
  std::array<GroupProgress, abi::kMaxRecvs> members_;  // of a receiver, only the first one
  size_t completed_ = 0;                               // messages
  bool moved_ = false;                                 // in this pass
};

}  // namespace gdr::tools

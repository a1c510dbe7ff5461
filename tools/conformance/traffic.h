// Posts and tests requests as NCCL's proxy does: each is posted again until the plugin returns a
// request, those of one comm in order, and then tested until it is done.
#pragma once

#include <array>
#include <deque>
#include <string>
#include <vector>

#include "tools/conformance/session.h"

namespace gdr::tools {

// One isend or irecv.
struct Op {
  enum class Kind { kSend, kRecv };
  Kind kind = Kind::kSend;
  void* comm = nullptr;
  std::vector<void*> data;
  std::vector<size_t> sizes;
  std::vector<int> tags;
  std::vector<void*> mhandles;
  std::vector<void*> phandles;  // for the profiler; empty: the op itself stands for each buffer
  bool optional_completion = false;  // of a receive: *request is 0x1 on entry, else null

  void* request = nullptr;
  bool posted = false;
  bool done = false;
  abi::ncclResult_t error = abi::ncclSuccess;
  std::array<int, abi::kMaxRecvs> actual{};  // sizes that test() reported for a receive

  bool over() const { return done || error != abi::ncclSuccess; }
};

// Returns an op of one buffer, with tag 0.
Op single_op(Op::Kind kind, void* comm, void* data, size_t bytes, void* mhandle);

struct TrafficStyle {
  bool null_sizes = false;     // pass a null sizes pointer to test()
  bool any_order = false;      // test requests in a random order instead of oldest first
  bool errors_are_ok = false;  // an error ends the op, but does not fail the case
  bool overrun = false;        // post more at once than the contract promises room for
};

class Traffic {
 public:
  Traffic(Session& session, TrafficStyle style) : session_(session), style_(style) {}

  Op& add(Op op) { return ops_.emplace_back(std::move(op)); }

  // Polls until every op is over; fails the case after the timeout.
  void run();
  // Runs one round over all ops and returns true when all are over.
  bool poll();
  void run_for(double seconds);

  // Tries to post an op; returns true when the plugin has returned a request. A plugin whose room
  // is exhausted returns none. Where it has as many requests as the contract promises, an internal
  // error is right too: NCCL's plugins/net/README.md has it for "allocating more requests than it
  // should".
  bool post(Op& op);
  // Tries to post each op that is not posted, in order; none of a comm after one without a request.
  void post_all();

 private:
  int room(const Op& op) const;  // requests that the contract promises room for
  int outstanding(void* comm) const;
  void test(Op& op);
  void note_error(Op& op, const char* entry, abi::ncclResult_t result);
  std::string waiting_for() const;

  Session& session_;
  TrafficStyle style_;
  std::deque<Op> ops_;  // references stay valid
};

}  // namespace gdr::tools

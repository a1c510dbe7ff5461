// Requests of a case, posted and tested as NCCL's proxy does: each is tried again until the plugin
// takes it, the ones of a comm in order, and tested until it is done.
#pragma once

#include <array>
#include <deque>
#include <string>
#include <vector>

#include "tools/conformance/session.h"

namespace gdr::tools {

// What NCCL's core presets *request to where it can do without a completion.
inline void* const kOptionalCompletion = reinterpret_cast<void*>(0x1);

struct Op {
  enum class Kind { kSend, kRecv };
  Kind kind = Kind::kSend;
  void* comm = nullptr;
  std::vector<void*> data;
  std::vector<int> sizes;
  std::vector<int> tags;
  std::vector<void*> mhandles;

  void* request = nullptr;
  bool posted = false;
  bool done = false;
  abi::ncclResult_t error = abi::ncclSuccess;
  std::array<int, abi::kMaxRecvs> actual{};  // as test() reported them; of a receive

  bool over() const { return done || error != abi::ncclSuccess; }
};

struct TrafficStyle {
  bool null_sizes = false;     // test() without a place for the sizes
  bool any_order = false;      // requests are tested in a random order, not oldest first
  bool errors_are_ok = false;  // an entry's error ends its op, not the case
};

class Traffic {
 public:
  Traffic(Session& session, TrafficStyle style) : session_(session), style_(style) {}

  Op& add(Op op) { return ops_.emplace_back(std::move(op)); }

  // Polls until every op is over; fails the case when the time is up.
  void run();
  // One round over all ops; true when all are over.
  bool poll();
  void run_for(double seconds);

  // Tries to post; true when the plugin took it.
  bool post(Op& op);

 private:
  void test(Op& op);
  void note_error(Op& op, const char* entry, abi::ncclResult_t result);
  std::string waiting_for() const;

  Session& session_;
  TrafficStyle style_;
  std::deque<Op> ops_;  // references stay valid
};

}  // namespace gdr::tools

// One ring through all ranks: runs the messages of a RingPlan over a send and a receive connection.
#pragma once

#include <vector>

#include "tools/perf/element.h"
#include "tools/perf/endpoint.h"
#include "tools/perf/ring_plan.h"

namespace gdr::tools {

// What one all-reduce works on. input and output may be the same memory.
struct RingOperands {
  const Element* element = nullptr;
  char* input = nullptr;
  char* output = nullptr;
  void* input_send_mr = nullptr;   // of the send comm
  void* output_send_mr = nullptr;  // of the send comm
  void* output_recv_mr = nullptr;  // of the receive comm
};

// Received slices that are still to be added: `depth` places of stride bytes.
struct StagingArea {
  char* data = nullptr;
  size_t stride = 0;
  void* mr = nullptr;  // of the receive comm
};

class RingChannel {
 public:
  RingChannel(const abi::ncclNet_v8_t& net, void* send_comm, void* recv_comm,
              const StagingArea& staging, size_t depth)
      : net_(net), send_comm_(send_comm), recv_comm_(recv_comm), staging_(staging), depth_(depth) {}

  // plan and operands must live until done().
  void start(const RingPlan* plan, const RingOperands* operands);

  bool done() const { return received_ == plan_->recv.size() && sent_ == plan_->send.size(); }

  // Does what can be done now. True when something moved.
  Result<bool> progress();

  // For the error when a run stalls.
  std::string waiting_for() const;

 private:
  Result<bool> post_receive();
  Result<bool> test_receive();
  Result<bool> post_send();
  Result<bool> test_send();
  void consume(const Slice& slice, size_t index);
  char* staged(size_t index) const { return staging_.data + index % depth_ * staging_.stride; }

  const abi::ncclNet_v8_t& net_;
  void* send_comm_;
  void* recv_comm_;
  StagingArea staging_;
  size_t depth_;
  const RingPlan* plan_ = nullptr;
  const RingOperands* operands_ = nullptr;
  size_t posted_recv_ = 0;
  size_t received_ = 0;
  size_t posted_send_ = 0;
  size_t sent_ = 0;
  void* recv_requests_[abi::kMaxRequests] = {};
  void* send_requests_[abi::kMaxRequests] = {};
};

}  // namespace gdr::tools

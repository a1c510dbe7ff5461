// The ring all-reduce of one rank: its channels, and the memory registered on each.
#pragma once

#include <memory>
#include <vector>

#include "tools/perf/endpoint.h"
#include "tools/perf/options.h"
#include "tools/perf/rank_setup.h"
#include "tools/perf/ring_plan.h"
#include "tools/ranks/link.h"
#include "tools/ranks/rank.h"

namespace gdr::tools {

// The vectors of one all-reduce. input and output may be the same memory.
struct RingOperands {
  float* input = nullptr;
  float* output = nullptr;
  void* input_send_mr = nullptr;   // registered with the send comm
  void* output_send_mr = nullptr;  // registered with the send comm
  void* output_recv_mr = nullptr;  // registered with the receive comm
};

// Received slices wait here until they are added to the output: `depth` slots of `stride` bytes.
struct StagingArea {
  char* data = nullptr;
  size_t stride = 0;
  void* mr = nullptr;  // registered with the receive comm
};

// One ring through all ranks. Sends and receives the messages of a RingPlan over two connections:
// to the next rank and from the previous one.
class RingChannel {
 public:
  RingChannel(Net& net, void* send_comm, void* recv_comm, const StagingArea& staging, size_t depth)
      : net_(net), send_comm_(send_comm), recv_comm_(recv_comm), staging_(staging), depth_(depth) {}

  // Begins an all-reduce. plan and operands must live until done().
  void start(const RingPlan* plan, const RingOperands* operands);

  bool done() const {
    return receives_.completed() == plan_->recv.size() && sends_.completed() == plan_->send.size();
  }

  // Posts and tests what is possible without waiting. Returns true when something completed or was
  // posted.
  Result<bool> progress();

  // Describes the outstanding messages, for the error of a run that stalls.
  std::string waiting_for() const;

 private:
  Result<bool> post_receive();
  Result<bool> test_receive();
  Result<bool> post_send();
  Result<bool> test_send();
  void consume(const Slice& slice, size_t index);
  char* staged(size_t index) const { return staging_.data + index % depth_ * staging_.stride; }

  Net& net_;
  void* send_comm_;
  void* recv_comm_;
  StagingArea staging_;
  size_t depth_;
  const RingPlan* plan_ = nullptr;
  const RingOperands* operands_ = nullptr;
  RequestQueue receives_;
  RequestQueue sends_;
};

// All channels of a rank.
class Ring {
 public:
  // Connects this rank with its neighbours and registers its memory. All ranks call this together.
  static Result<Ring> open(Rank& rank, const RankSetup& setup, const PerfOptions& options);

  float* input() const { return reinterpret_cast<float*>(input_->data()); }
  float* output() const { return reinterpret_cast<float*>(output_->data()); }

  // Sums `count` elements over all ranks into output(), from input() or, in place, from output().
  Status all_reduce(size_t count, bool in_place);

 private:
  struct Channel {
    Registration input_send, output_send, output_recv, staging_recv;
    std::unique_ptr<Buffer> staging;
    std::unique_ptr<RingChannel> ring;
    RingPlan plan;
    RingOperands operands;
  };

  Ring(Rank& rank, Net& net, const PerfOptions& options);
  Status open_channel(size_t index);
  void plan(size_t count, bool in_place);

  Rank* rank_;
  Net* net_;
  const PerfOptions* options_;
  Links links_;
  std::unique_ptr<Buffer> input_;
  std::unique_ptr<Buffer> output_;
  std::vector<Channel> channels_;  // declared last: deregisters its memory before the links close
  size_t planned_count_ = 0;
  uint64_t yield_every_ = 1;
};

}  // namespace gdr::tools

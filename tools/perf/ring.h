// All channels of a rank, with the memory of an all-reduce registered on each.
#pragma once

#include <memory>
#include <vector>

#include "tools/common/buffer.h"
#include "tools/common/link.h"
#include "tools/perf/options.h"
#include "tools/perf/ring_channel.h"
#include "tools/ranks/rank.h"

namespace gdr::tools {

class Ring {
 public:
  // Connects this rank with its neighbours; all ranks call it together.
  static Result<Ring> open(Rank& rank, const abi::ncclNet_v8_t& net, int dev,
                           const PerfOptions& options, const Element& element);

  char* input() const { return input_->data(); }
  char* output() const { return output_->data(); }

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

  Ring(Rank& rank, const abi::ncclNet_v8_t& net, const PerfOptions& options,
       const Element& element);
  Status open_channel(size_t index);
  void plan(size_t count, bool in_place);

  Rank* rank_;
  const abi::ncclNet_v8_t* net_;
  const PerfOptions* options_;
  const Element* element_;
  Links links_;
  std::unique_ptr<Buffer> input_;
  std::unique_ptr<Buffer> output_;
  std::vector<Channel> channels_;  // ends before the links
  size_t planned_count_ = 0;
  uint64_t yield_every_ = 1;
};

}  // namespace gdr::tools

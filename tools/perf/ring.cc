#include "tools/perf/ring.h"

#include <cstring>

#include "tools/perf/rank_memory.h"

namespace gdr::tools {
namespace {
constexpr size_t kChannelGrainBytes = 128;  // NCCL aligns its splits to this

Result<std::unique_ptr<Buffer>> make_buffer(size_t bytes) {
  auto buffer = Buffer::host(bytes);
  if (!buffer) return forward_error(buffer);
  return std::make_unique<Buffer>(std::move(*buffer));
}
}  // namespace

void RingChannel::start(const RingPlan* plan, const RingOperands* operands) {
  plan_ = plan;
  operands_ = operands;
  receives_ = sends_ = {};
}

// Tests receives first, since a received slice enables the next send, and sends before it posts
// further receives: the peer waits for the data.
Result<bool> RingChannel::progress() {
  bool moved = false;
  for (auto step : {&RingChannel::test_receive, &RingChannel::post_send, &RingChannel::post_receive,
                    &RingChannel::test_send}) {
    auto result = (this->*step)();
    if (!result) return result;
    moved |= *result;
  }
  return moved;
}

Result<bool> RingChannel::post_receive() {
  const size_t index = receives_.posted();
  if (index == plan_->recv.size() || receives_.in_flight() >= depth_) return false;
  const Slice& slice = plan_->recv[index];
  void* into = operands_->output + slice.first;
  if (slice.reduce) into = staged(index);
  void* mr = slice.reduce ? staging_.mr : operands_->output_recv_mr;
  size_t size = slice.count * kElementBytes;
  int tag = 0;
  void* phandle = nullptr;  // no profiler
  void* request = nullptr;
  abi::ncclResult_t result = net_.irecv(recv_comm_, 1, &into, &size, &tag, &mr, &phandle, &request);
  if (result != abi::ncclSuccess) return entry_failed("irecv", index, result);
  return receives_.push(request);
}

Result<bool> RingChannel::test_receive() {
  if (receives_.in_flight() == 0) return false;
  const size_t index = receives_.completed();
  int size = 0;
  auto done = receives_.test(net_, &size);
  if (!done || !*done) return done;
  const Slice& slice = plan_->recv[index];
  size_t expected = slice.count * kElementBytes;
  if (static_cast<size_t>(size) != expected) {
    return fail(Code::kInternal,
                fmt::format("message {} has {} bytes instead of {}", index, size, expected));
  }
  consume(slice, index);
  return true;
}

// Adds a received slice to this rank's input. A slice that is not reduced was received directly
// into the output.
void RingChannel::consume(const Slice& slice, size_t index) {
  if (!slice.reduce) return;
  add_elements(operands_->output + slice.first, operands_->input + slice.first,
               reinterpret_cast<const float*>(staged(index)), slice.count);
}

Result<bool> RingChannel::post_send() {
  const size_t index = sends_.posted();
  if (index == plan_->send.size() || sends_.in_flight() >= depth_) return false;
  bool own = index < plan_->own_sends;
  if (!own && index - plan_->own_sends >= receives_.completed()) return false;
  const Slice& slice = plan_->send[index];
  float* from = (own ? operands_->input : operands_->output) + slice.first;
  void* mr = own ? operands_->input_send_mr : operands_->output_send_mr;
  void* request = nullptr;
  abi::ncclResult_t result =
      net_.isend(send_comm_, from, slice.count * kElementBytes, 0, mr, nullptr, &request);
  if (result != abi::ncclSuccess) return entry_failed("isend", index, result);
  return sends_.push(request);
}

Result<bool> RingChannel::test_send() {
  if (sends_.in_flight() == 0) return false;
  return sends_.test(net_, nullptr);
}

std::string RingChannel::waiting_for() const {
  return fmt::format(
      "{} of {} messages received, {} of {} sent, {} receives and {} sends in flight",
      receives_.completed(), plan_->recv.size(), sends_.completed(), plan_->send.size(),
      receives_.in_flight(), sends_.in_flight());
}

Ring::Ring(Rank& rank, Net& net, const PerfOptions& options)
    : rank_(&rank), net_(&net), options_(&options) {
  yield_every_ = StallGuard::yield_interval(options.root.empty() ? rank.nranks() : 1);
}

Result<Ring> Ring::open(Rank& rank, const RankSetup& setup, const PerfOptions& options) {
  Ring ring(rank, setup.net(), options);
  std::vector<LinkSpec> specs;
  int n = rank.nranks();
  for (int r = 0; r < n; ++r) {
    for (size_t c = 0; c < options.channels; ++c) {
      int device = options.rails.empty() ? -1 : options.rails[c % options.rails.size()];
      specs.push_back({r, (r + 1) % n, device});
    }
  }
  auto links =
      connect_links(rank, setup.net(), setup.context.get_deleter().context, setup.dev, specs);
  if (!links) return forward_error(links);
  ring.links_ = std::move(*links);
  for (std::unique_ptr<Buffer>* buffer : {&ring.input_, &ring.output_}) {
    auto made = make_buffer(options.end + kChannelGrainBytes);
    if (!made) return forward_error(made);
    *buffer = std::move(*made);
  }
  for (size_t c = 0; c < options.channels; ++c) {
    if (Status opened = ring.open_channel(c); !opened) return forward_error(opened);
  }
  return ring;
}

Status Ring::open_channel(size_t index) {
  int previous = (rank_->rank() + rank_->nranks() - 1) % rank_->nranks();
  size_t mine = static_cast<size_t>(rank_->rank()) * options_->channels + index;
  size_t theirs = static_cast<size_t>(previous) * options_->channels + index;
  void* send_comm = links_.send[mine].get();
  void* recv_comm = links_.recv[theirs].get();
  Channel channel;
  auto staging = make_buffer(options_->slice * options_->depth);
  if (!staging) return forward_error(staging);
  channel.staging = std::move(*staging);
  struct Wanted {
    Registration* into;
    void* comm;
    const Buffer* buffer;
  };
  for (Wanted wanted : {Wanted{&channel.input_send, send_comm, input_.get()},
                        Wanted{&channel.output_send, send_comm, output_.get()},
                        Wanted{&channel.output_recv, recv_comm, output_.get()},
                        Wanted{&channel.staging_recv, recv_comm, channel.staging.get()}}) {
    auto made = register_memory(*net_, wanted.comm, *wanted.buffer, RegisteredBy::kHostAddress);
    if (!made) return forward_error(made);
    *wanted.into = std::move(*made);
  }
  StagingArea area{channel.staging->data(), options_->slice, channel.staging_recv.get()};
  channel.ring = std::make_unique<RingChannel>(*net_, send_comm, recv_comm, area, options_->depth);
  channels_.push_back(std::move(channel));
  return {};
}

// Prepares all channels. Plans depend only on the count, so repeated all-reduces reuse them.
void Ring::plan(size_t count, bool in_place) {
  for (size_t c = 0; c < channels_.size(); ++c) {
    Channel& channel = channels_[c];
    if (count != planned_count_) {
      ElementRange part =
          part_of({0, count}, channels_.size(), c, kChannelGrainBytes / kElementBytes);
      channel.plan =
          make_ring_plan(part, rank_->rank(), rank_->nranks(), options_->slice / kElementBytes);
    }
    channel.operands.input = in_place ? output() : input();
    channel.operands.input_send_mr =
        in_place ? channel.output_send.get() : channel.input_send.get();
    channel.operands.output = output();
    channel.operands.output_send_mr = channel.output_send.get();
    channel.operands.output_recv_mr = channel.output_recv.get();
    channel.ring->start(&channel.plan, &channel.operands);
  }
  planned_count_ = count;
}

// Drives all channels in one thread until all are done, as NCCL's proxy does.
Status Ring::all_reduce(size_t count, bool in_place) {
  plan(count, in_place);
  StallGuard guard(*rank_, yield_every_);
  for (size_t open = channels_.size(); open > 0;) {
    bool moved = false;
    open = 0;
    for (size_t c = 0; c < channels_.size(); ++c) {
      RingChannel& ring = *channels_[c].ring;
      if (ring.done()) continue;
      ++open;
      auto result = ring.progress();
      if (!result) return forward_error(result);
      moved |= *result;
    }
    if (moved) {
      guard.progress();
    } else if (open > 0 && !guard.keep_waiting()) {
      break;
    }
  }
  rank_->board().beat();
  for (size_t c = 0; c < channels_.size(); ++c) {
    const RingChannel& ring = *channels_[c].ring;
    if (!ring.done()) {
      return fail(Code::kRemote,
                  fmt::format("gave up waiting: channel {}: {}", c, ring.waiting_for()));
    }
  }
  return {};
}

}  // namespace gdr::tools

#include "tools/perf/ring_channel.h"

#include <cstring>

namespace gdr::tools {

void RingChannel::start(const RingPlan* plan, const RingOperands* operands) {
  plan_ = plan;
  operands_ = operands;
  posted_recv_ = received_ = posted_send_ = sent_ = 0;
}

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
  if (posted_recv_ == plan_->recv.size() || posted_recv_ - received_ >= depth_) return false;
  const Slice& slice = plan_->recv[posted_recv_];
  size_t width = operands_->element->bytes;
  void* into = slice.reduce ? staged(posted_recv_) : operands_->output + slice.first * width;
  void* mr = slice.reduce ? staging_.mr : operands_->output_recv_mr;
  int size = static_cast<int>(slice.count * width);
  int tag = 0;
  void* request = nullptr;
  abi::ncclResult_t result = net_.irecv(recv_comm_, 1, &into, &size, &tag, &mr, &request);
  if (result != abi::ncclSuccess) return entry_failed("irecv", posted_recv_, result);
  if (request == nullptr) return false;
  recv_requests_[posted_recv_++ % abi::kMaxRequests] = request;
  return true;
}

Result<bool> RingChannel::test_receive() {
  if (received_ == posted_recv_) return false;
  int done = 0;
  int size = 0;
  abi::ncclResult_t result = net_.test(recv_requests_[received_ % abi::kMaxRequests], &done, &size);
  if (result != abi::ncclSuccess) return entry_failed("test of receive", received_, result);
  if (done == 0) return false;
  const Slice& slice = plan_->recv[received_];
  size_t expected = slice.count * operands_->element->bytes;
  if (static_cast<size_t>(size) != expected) {
    return fail(Code::kInternal, fmt::format("message {} came with {} bytes instead of {}",
                                             received_, size, expected));
  }
  consume(slice, received_);
  ++received_;
  return true;
}

void RingChannel::consume(const Slice& slice, size_t index) {
  if (!slice.reduce) return;
  size_t at = slice.first * operands_->element->bytes;
  operands_->element->add(operands_->output + at, operands_->input + at, staged(index),
                          slice.count);
}

Result<bool> RingChannel::post_send() {
  if (posted_send_ == plan_->send.size() || posted_send_ - sent_ >= depth_) return false;
  bool own = posted_send_ < plan_->own_sends;
  if (!own && posted_send_ - plan_->own_sends >= received_) return false;
  const Slice& slice = plan_->send[posted_send_];
  size_t width = operands_->element->bytes;
  char* from = (own ? operands_->input : operands_->output) + slice.first * width;
  void* mr = own ? operands_->input_send_mr : operands_->output_send_mr;
  void* request = nullptr;
  abi::ncclResult_t result =
      net_.isend(send_comm_, from, static_cast<int>(slice.count * width), 0, mr, &request);
  if (result != abi::ncclSuccess) return entry_failed("isend", posted_send_, result);
  if (request == nullptr) return false;
  send_requests_[posted_send_++ % abi::kMaxRequests] = request;
  return true;
}

Result<bool> RingChannel::test_send() {
  if (sent_ == posted_send_) return false;
  int done = 0;
  abi::ncclResult_t result = net_.test(send_requests_[sent_ % abi::kMaxRequests], &done, nullptr);
  if (result != abi::ncclSuccess) return entry_failed("test of send", sent_, result);
  if (done == 0) return false;
  ++sent_;
  return true;
}

std::string RingChannel::waiting_for() const {
  return fmt::format(
      "{} of {} messages received, {} of {} sent, {} receives and {} sends in flight", received_,
      plan_->recv.size(), sent_, plan_->send.size(), posted_recv_ - received_,
      posted_send_ - sent_);
}

}  // namespace gdr::tools

// Scopes around driver calls in threads that may be the application's: the state that the calls
// change is restored afterwards.
#pragma once

#include "drivers/cuda/cuda_api.h"

namespace softhca {

// Allows this thread the calls that CUDA refuses while another thread captures a graph in global
// mode (cuThreadExchangeStreamCaptureMode). It is safe: our streams are never part of a capture.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const gdr::cuda::Api& api) : api_(api) {
    api_.thread_exchange_stream_capture_mode(&mode_);
  }
  ~RelaxedCapture() { api_.thread_exchange_stream_capture_mode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const gdr::cuda::Api& api_;
  int mode_ = gdr::cuda::kCaptureModeRelaxed;  // after the exchange: the thread's own mode
};

// Makes a context current while the scope lives; the thread's own context is restored afterwards.
class ContextScope {
 public:
  ContextScope(const gdr::cuda::Api& api, gdr::cuda::Context context) : api_(api), relaxed_(api) {
    gdr::cuda::Context current = nullptr;
    rc_ = api_.ctx_get_current(&current);
    if (rc_ != gdr::cuda::kSuccess || current == context) return;
    rc_ = api_.ctx_push_current(context);
    pushed_ = rc_ == gdr::cuda::kSuccess;
  }
  ~ContextScope() {
    gdr::cuda::Context popped = nullptr;
    if (pushed_) api_.ctx_pop_current(&popped);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  // Success, or why the context could not be made current.
  gdr::cuda::Rc rc() const { return rc_; }

 private:
  const gdr::cuda::Api& api_;
  RelaxedCapture relaxed_;
  gdr::cuda::Rc rc_ = gdr::cuda::kSuccess;
  bool pushed_ = false;
};

}  // namespace softhca

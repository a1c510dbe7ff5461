// What the fake's API functions share: checks before a call, and the contexts of threads.
#pragma once

#include "tests/fakes/cuda/stream.h"

namespace fake_cuda {

inline constexpr int kDevices = 2;

// The primary context of a device.
CUctx_st* primary(int device);

// This thread's context stack.
CUctx_st* current();
void push(CUctx_st* context);
CUctx_st* pop();

// This thread's capture mode; what it was before.
int exchange_capture_mode(int mode);

// How a real driver treats a call.
enum class Kind {
  kQuery,    // needs cuInit only
  kContext,  // needs a current context
  kUnsafe,   // the same, and is refused while another thread captures
  kWaiting,  // the same, and waits for running kernels
};

// Success, or the error that the call must return. Aborts where the call breaks a rule.
int enter(const char* call, Kind kind);

// enter() for a call on a stream, which must be of the current context and not the default one.
int enter(const char* call, Kind kind, CUstream_st* stream);

}  // namespace fake_cuda

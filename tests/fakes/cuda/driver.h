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

// Sets this thread's capture mode and returns the previous one.
int exchange_capture_mode(int mode);

// What a real driver requires of a call, and what the call waits for.
enum class Kind {
  kQuery,    // needs cuInit only
  kContext,  // needs a current context
  kUnsafe,   // the same, and fails while another thread captures a graph
  kWaiting,  // the same, and waits for running kernels
};

// Returns success, or the error that the call must return. Aborts if the call breaks a rule.
int enter(const char* call, Kind kind);

// Does what enter() does for a call on a stream, which must belong to the current context and not
// be the default stream.
int enter(const char* call, Kind kind, CUstream_st* stream);

}  // namespace fake_cuda

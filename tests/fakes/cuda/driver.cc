#include "tests/fakes/cuda/driver.h"

#include <array>
#include <utility>
#include <vector>

#include "drivers/cuda/cuda_api.h"
#include "tests/fakes/cuda/rules.h"

namespace fake_cuda {
namespace {

namespace cuda = gdr::cuda;

thread_local std::vector<CUctx_st*> t_contexts;
thread_local int t_capture_mode = cuda::kCaptureModeGlobal;

}  // namespace

CUctx_st* primary(int device) {
  static auto* contexts = [] {
    auto* made = new std::array<CUctx_st, kDevices>();
    for (int i = 0; i < kDevices; ++i) (*made)[i].device = i;
    return made;
  }();
  return &(*contexts)[device];
}

CUctx_st* current() { return t_contexts.empty() ? nullptr : t_contexts.back(); }

void push(CUctx_st* context) { t_contexts.push_back(context); }

CUctx_st* pop() {
  CUctx_st* top = current();
  if (top != nullptr) t_contexts.pop_back();
  return top;
}

int exchange_capture_mode(int mode) { return std::exchange(t_capture_mode, mode); }

int enter(const char* call, Kind kind) {
  if (switches().shut_down) return cuda::kErrorDeinitialized;
  if (!switches().initialized) return cuda::kErrorNotInitialized;
  if (kind == Kind::kQuery) return cuda::kSuccess;
  if (current() == nullptr) violation(call, "no context is current in this thread");
  if (kind != Kind::kContext && switches().capturing &&
      t_capture_mode != cuda::kCaptureModeRelaxed) {
    violation(call, "another thread captures a graph, and this one has not relaxed its mode");
  }
  if (kind == Kind::kWaiting) switches().kernels.pass();
  return current()->error;
}

int enter(const char* call, Kind kind, CUstream_st* stream) {
  if (stream == nullptr) violation(call, "the default stream waits for all others");
  int rc = enter(call, kind);
  if (rc == cuda::kSuccess && stream->context() != current()) {
    violation(call, "the stream is of another context than the current one");
  }
  return rc;
}

}  // namespace fake_cuda

// Staging's copies on a real GPU, beside a kernel that spins as NCCL's do: they complete, also
// while the application has copies of the other direction waiting behind that kernel. Copies of the
// same direction may hold them up, since streams share the GPU's copy queues (docs/adr/0007); how
// many of them is printed, for CUDA_DEVICE_MAX_CONNECTIONS as it is set. Exits with 0 where it
// passed, 1 where it failed, 77 where there is no GPU.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/gpu/spin_kernel.h"
#include "transport/gpu/copy_stream.h"
#include "transport/gpu/cuda_driver.h"
#include "transport/gpu/gpu_memory.h"
#include "transport/gpu/pinned_memory.h"

namespace {

using gdr::gpu::CopyStream;
using gdr::gpu::CudaDriver;
using gdr::gpu::Gpu;
using gdr::gpu::PinnedMemory;
using gpu_test::SpinKernels;
using Clock = std::chrono::steady_clock;

constexpr size_t kCopy = size_t{64} << 10;
constexpr size_t kStreams = 8;                       // ours: as many channels as NCCL may have
constexpr std::chrono::milliseconds kPatience{200};  // a copy takes some 20 us
constexpr std::chrono::seconds kAtLast{10};

enum class Direction : uint8_t { kToHost, kToGpu };
const char* name_of(Direction direction) {
  return direction == Direction::kToHost ? "to host" : "to GPU";
}

struct Buffers {
  std::unique_ptr<PinnedMemory> word;  // what the kernels wait for
  std::unique_ptr<PinnedMemory> host;
  Gpu::Memory gpu;

  std::byte* on_gpu() const { return static_cast<std::byte*>(gpu.get()); }
};

// What the application has put behind each of its spinning kernels.
struct Application {
  int streams;
  bool copies;
  Direction direction;
};

int g_failures = 0;

void check(bool ok, const std::string& what) {
  if (ok) return;
  std::printf("FAILED: %s\n", what.c_str());
  ++g_failures;
}

size_t count_done(const std::vector<std::shared_ptr<CopyStream>>& streams,
                  Clock::duration patience) {
  const Clock::time_point end = Clock::now() + patience;
  for (;;) {
    auto done = std::count_if(streams.begin(), streams.end(),
                              [](const auto& stream) { return stream->done(1).value_or(false); });
    if (static_cast<size_t>(done) == streams.size() || Clock::now() > end) return done;
  }
}

gdr::Status queue_copies(const gdr::cuda::Api& api, const SpinKernels& kernels,
                         const Buffers& buffers, Direction direction) {
  auto host = reinterpret_cast<gdr::cuda::DevicePtr>(buffers.host->get());
  auto gpu = reinterpret_cast<gdr::cuda::DevicePtr>(buffers.on_gpu());
  if (direction == Direction::kToHost) std::swap(host, gpu);
  for (gdr::cuda::Stream stream : kernels.streams()) {
    gdr::cuda::Rc rc = api.memcpy_async(gpu, host, kCopy, stream);
    if (rc != gdr::cuda::kSuccess) {
      return gdr::fail(gdr::Code::kSystem, "cuMemcpyAsync: " + gdr::cuda::error_name(api, rc));
    }
  }
  return {};
}

// How many of our streams' copies complete while the kernels spin.
gdr::Result<size_t> copies_beside(const gdr::gpu::PrimaryContext& context, const Buffers& buffers,
                                  Direction direction, const Application& application) {
  std::vector<std::shared_ptr<CopyStream>> ours;
  for (size_t i = 0; i < kStreams; ++i) {
    auto stream = CopyStream::create(*CudaDriver::shared(), context.device());
    if (!stream) return gdr::forward_error(stream);
    ours.push_back(*stream);
  }
  gdr::gpu::CurrentContext current(context);
  auto* word = reinterpret_cast<uint32_t*>(buffers.word->get());
  *word = 0;
  auto kernels = SpinKernels::launch(context, word, application.streams);
  if (!kernels) return gdr::forward_error(kernels);
  if (application.copies) {
    gdr::Status queued = queue_copies(context.api(), **kernels, buffers, application.direction);
    if (!queued) return gdr::forward_error(queued);
  }
  for (size_t i = 0; i < kStreams; ++i) {
    std::byte* host = buffers.host->get() + (i + 1) * kCopy;
    std::byte* gpu = buffers.on_gpu() + (i + 1) * kCopy;
    if (direction == Direction::kToHost) std::swap(host, gpu);
    if (auto ticket = ours[i]->copy(gpu, host, kCopy); !ticket) return gdr::forward_error(ticket);
  }
  size_t done = count_done(ours, kPatience);
  kernels->reset();
  check(count_done(ours, kAtLast) == kStreams, "copies complete once the kernels have ended");
  return done;
}

gdr::Status run(const CudaDriver& driver) {
  gdr::Result<Gpu> gpu = Gpu::open(driver, 0);
  if (!gpu) return gdr::forward_error(gpu);
  gdr::Result<gdr::gpu::PrimaryContext> context = gdr::gpu::PrimaryContext::retain(driver, 0);
  if (!context) return gdr::forward_error(context);
  auto word = PinnedMemory::create(driver, 0, sizeof(uint32_t));
  auto host = PinnedMemory::create(driver, 0, (kStreams + 1) * kCopy);
  auto memory = gpu->allocate((kStreams + 1) * kCopy);
  if (!word) return gdr::forward_error(word);
  if (!host) return gdr::forward_error(host);
  if (!memory) return gdr::forward_error(memory);
  Buffers buffers{std::move(*word), std::move(*host), std::move(*memory)};

  const char* connections = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  std::printf("%zu streams of ours, CUDA_DEVICE_MAX_CONNECTIONS %s\n", kStreams,
              connections != nullptr ? connections : "not set");
  for (Direction direction : {Direction::kToHost, Direction::kToGpu}) {
    for (int streams : {1, 2, 8}) {
      for (auto behind :
           {Application{streams, false, direction}, Application{streams, true, Direction::kToHost},
            Application{streams, true, Direction::kToGpu}}) {
        gdr::Result<size_t> done = copies_beside(*context, buffers, direction, behind);
        if (!done) return gdr::forward_error(done);
        const bool may_wait = behind.copies && behind.direction == direction;
        std::printf("%s beside %d kernels, behind each %-14s: %zu complete%s\n", name_of(direction),
                    streams, behind.copies ? name_of(behind.direction) : "nothing", *done,
                    *done == kStreams ? "" : ", the others when the kernels end");
        check(may_wait || *done == kStreams, "all complete");
      }
    }
  }
  return {};
}

}  // namespace

int main() {
  const gdr::Result<CudaDriver>& driver = CudaDriver::shared();
  gdr::Result<int> devices = driver ? driver->device_count() : gdr::Result<int>(0);
  if (!devices || *devices == 0) {
    std::printf("no GPU: %s\n", driver ? "no device" : driver.error().text.c_str());
    return 77;
  }
  gdr::Status status = run(*driver);
  if (!status) check(false, status.error().text);
  std::printf("%s\n", g_failures == 0 ? "passed" : "failed");
  return g_failures == 0 ? 0 : 1;
}

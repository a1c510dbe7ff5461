// The copies of staging on a real GPU while a kernel spins, like those of NCCL: they complete, also
// while copies of the application in the other direction wait behind that kernel. Copies of the
// same direction may delay them, because streams share the GPU's copy queues (docs/adr/0007); their
// number is printed, for the present CUDA_DEVICE_MAX_CONNECTIONS. Exit status: 0 passed, 1 failed,
// 77 no GPU.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "drivers/cuda/cuda_driver.h"
#include "drivers/cuda/gpu_workspace.h"
#include "tests/gpu/gpu_program.h"
#include "tests/gpu/spin_kernel.h"
#include "transport/memory/copy_stream.h"
#include "transport/memory/pinned_memory.h"

namespace {

using gdr::cuda::CudaDriver;
using gdr::cuda::GpuWorkspace;
using gdr::transport::CopyStream;
using gdr::transport::PinnedMemory;
using gpu_test::check;
using gpu_test::SpinKernels;
using Clock = std::chrono::steady_clock;

constexpr size_t kCopy = size_t{64} << 10;
constexpr size_t kStreams = 8;  // streams of staging: as many as NCCL may have channels
constexpr std::chrono::milliseconds kPatience{200};  // a copy takes about 20 us
constexpr std::chrono::seconds kAtLast{10};

enum class Direction : uint8_t { kToHost, kToGpu };
const char* name_of(Direction direction) {
  return direction == Direction::kToHost ? "to host" : "to GPU";
}

struct Buffers {
  std::unique_ptr<gdr::transport::PinnedMemory> word;  // what the kernels wait for
  std::unique_ptr<gdr::transport::PinnedMemory> host;
  GpuWorkspace::Memory gpu;

  // Destination and source of a copy; slot 0 belongs to the application.
  std::pair<std::byte*, std::byte*> ends(Direction direction, size_t slot) const {
    std::byte* on_host = host->get() + slot * kCopy;
    std::byte* on_gpu = static_cast<std::byte*>(gpu.get()) + slot * kCopy;
    return direction == Direction::kToHost ? std::pair(on_host, on_gpu)
                                           : std::pair(on_gpu, on_host);
  }
};

// Spinning kernels, each in a stream, and the copy that the application has queued behind each.
struct Application {
  int streams;
  std::optional<Direction> copies;
};

size_t count_done(const std::vector<std::shared_ptr<gdr::transport::CopyStream>>& streams,
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
  auto [to, from] = buffers.ends(direction, 0);
  for (gdr::cuda::Stream stream : kernels.streams()) {
    gdr::cuda::Rc rc =
        api.memcpy_async(reinterpret_cast<gdr::cuda::DevicePtr>(to),
                         reinterpret_cast<gdr::cuda::DevicePtr>(from), kCopy, stream);
    if (rc != gdr::cuda::kSuccess) {
      return gdr::fail(gdr::Code::kSystem, "cuMemcpyAsync: " + gdr::cuda::error_name(api, rc));
    }
  }
  return {};
}

// Returns how many copies of staging's streams complete while the kernels spin.
gdr::Result<size_t> copies_beside(const gdr::cuda::PrimaryContext& context, const Buffers& buffers,
                                  Direction direction, const Application& application) {
  std::vector<std::shared_ptr<gdr::transport::CopyStream>> ours;
  for (size_t i = 0; i < kStreams; ++i) {
    auto stream = gdr::transport::CopyStream::create(*CudaDriver::shared(), context.device());
    if (!stream) return gdr::forward_error(stream);
    ours.push_back(*stream);
  }
  gdr::cuda::CurrentContext current(context);
  auto* word = reinterpret_cast<uint32_t*>(buffers.word->get());
  *word = 0;
  auto kernels = SpinKernels::launch(context, word, application.streams);
  if (!kernels) return gdr::forward_error(kernels);
  if (application.copies) {
    gdr::Status queued = queue_copies(context.api(), **kernels, buffers, *application.copies);
    if (!queued) return gdr::forward_error(queued);
  }
  for (size_t i = 0; i < kStreams; ++i) {
    auto [to, from] = buffers.ends(direction, i + 1);
    if (auto ticket = ours[i]->copy(to, from, kCopy); !ticket) return gdr::forward_error(ticket);
  }
  size_t done = count_done(ours, kPatience);
  kernels->reset();
  check(count_done(ours, kAtLast) == kStreams, "copies complete once the kernels have ended");
  return done;
}

gdr::Status run(const CudaDriver& driver) {
  gdr::Result<GpuWorkspace> gpu = GpuWorkspace::open(driver, 0);
  if (!gpu) return gdr::forward_error(gpu);
  gdr::Result<gdr::cuda::PrimaryContext> context =
      gdr::cuda::PrimaryContext::retain(driver.api(), 0);
  if (!context) return gdr::forward_error(context);
  auto word = gdr::transport::PinnedMemory::create(driver, 0, sizeof(uint32_t));
  auto host = gdr::transport::PinnedMemory::create(driver, 0, (kStreams + 1) * kCopy);
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
      for (std::optional<Direction> behind :
           {std::optional<Direction>(), std::optional(Direction::kToHost),
            std::optional(Direction::kToGpu)}) {
        gdr::Result<size_t> done = copies_beside(*context, buffers, direction, {streams, behind});
        if (!done) return gdr::forward_error(done);
        std::printf("%s with %d kernels, behind each %-14s: %zu complete%s\n", name_of(direction),
                    streams, behind ? name_of(*behind) : "nothing", *done,
                    *done == kStreams ? "" : ", the others when the kernels end");
        check(behind == direction || *done == kStreams, "all complete");
      }
    }
  }
  return {};
}

}  // namespace

int main() {
  return gpu_test::run_on_gpus([](const CudaDriver& driver, int) { return run(driver); });
}

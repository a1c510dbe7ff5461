// The software HCA's GPU copies on real GPUs: correct bytes, no stall behind kernels, and
// bandwidths. usage: gpu_copier_gpu_test [write|event [MiB per bandwidth]] Exit status: 0 passed, 1
// failed, 77 no GPU.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "drivers/cuda/cuda_driver.h"
#include "drivers/cuda/gpu_workspace.h"
#include "softhca/gpu/copier.h"
#include "tests/gpu/spin_kernel.h"

namespace {

using gdr::cuda::CudaDriver;
using gdr::cuda::GpuWorkspace;
using softhca::GpuCopier;
using softhca::GpuTicket;
using Clock = std::chrono::steady_clock;

constexpr size_t kChunk = size_t{512} << 10;
constexpr size_t kBuffer = size_t{64} << 20;
constexpr uint32_t kInFlight = 32;         // copies over all lanes
constexpr std::chrono::seconds kStall{5};  // far longer than any copy here

int g_failures = 0;

// Prints and counts a check that failed.
void check(bool ok, const std::string& what) {
  if (ok) return;
  std::printf("FAILED: %s\n", what.c_str());
  ++g_failures;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The memory at one end of a copy.
struct CopyEnd {
  const char* name;
  char* bytes;
  int device;  // the device whose lanes copy; for host memory, that of the other end
};

struct Rig {
  GpuCopier* copier;
  std::vector<CopyEnd> ends;  // host, GPU 0, another buffer of it, GPU 1 if there is one
  size_t total;               // bytes moved for one measured bandwidth
};

// Returns false if the event does not occur in time.
bool wait(GpuCopier* copier, GpuTicket ticket) {
  Clock::time_point start = Clock::now();
  while (!copier->done(ticket)) {
    if (Clock::now() - start < kStall) continue;
    std::optional<gdr::Error> failure = copier->failure(ticket.lane);
    std::printf("lane %u: %s\n", ticket.lane, failure ? failure->text.c_str() : "stalled");
    return false;
  }
  return true;
}

void check_bytes(const Rig& rig, const GpuWorkspace& gpu, const CopyEnd& from, const CopyEnd& to) {
  std::vector<char> sent(kBuffer);
  std::vector<char> got(kBuffer);
  for (size_t i = 0; i < kBuffer; ++i) sent[i] = static_cast<char>(i * 31 + i / 4099 + to.name[0]);
  check(gpu.copy(from.bytes, sent.data(), kBuffer).has_value(), "filling");
  std::vector<GpuTicket> tickets;
  for (size_t at = 0; at < kBuffer; at += kChunk) {
    uint32_t lane = rig.copier->lane(from.device, static_cast<uint32_t>(at / kChunk));
    auto ticket = rig.copier->copy(lane, to.bytes + at, from.bytes + at, kChunk);
    check(ticket.has_value(), "launching a copy");
    if (ticket) tickets.push_back(*ticket);
  }
  for (GpuTicket ticket : tickets) check(wait(rig.copier, ticket), "a copy's completion");
  check(gpu.copy(got.data(), to.bytes, kBuffer).has_value(), "reading back");
  check(got == sent, std::string("bytes ") + from.name + " -> " + to.name);
}

void measure_bandwidth(const Rig& rig, const CopyEnd& from, const CopyEnd& to, uint32_t lanes) {
  GpuTicket tickets[kInFlight] = {};
  auto copies = static_cast<uint32_t>(rig.total / kChunk);
  double launching = 0;
  Clock::time_point start = Clock::now();
  for (uint32_t i = 0; i < copies + kInFlight; ++i) {
    GpuTicket& slot = tickets[i % kInFlight];
    if (i >= kInFlight && !wait(rig.copier, slot)) return check(false, "bandwidth");
    if (i >= copies) continue;
    size_t at = i * kChunk % kBuffer;
    Clock::time_point launch = Clock::now();
    auto ticket = rig.copier->copy(rig.copier->lane(from.device, i % lanes), to.bytes + at,
                                   from.bytes + at, kChunk);
    launching += seconds_since(launch);
    if (!ticket) return check(false, ticket.error().text);
    slot = *ticket;
  }
  std::printf("%-6s -> %-6s 512 KiB lanes %u: %7.1f GB/s, launch %5.2f us\n", from.name, to.name,
              lanes, static_cast<double>(rig.total) / seconds_since(start) / 1e9,
              launching / copies * 1e6);
}

void measure_latency(const Rig& rig, const CopyEnd& from, const CopyEnd& to, size_t bytes) {
  constexpr int kRounds = 5000;
  std::vector<double> rounds;
  for (int i = 0; i < kRounds; ++i) {
    Clock::time_point start = Clock::now();
    auto ticket = rig.copier->copy(rig.copier->lane(from.device, 0), to.bytes, from.bytes, bytes);
    if (!ticket || !wait(rig.copier, *ticket)) return check(false, "latency");
    rounds.push_back(seconds_since(start) * 1e6);
  }
  std::sort(rounds.begin(), rounds.end());
  std::printf("%-6s -> %-6s %7zu B  copy and done: median %6.2f us, 99%% %6.2f us\n", from.name,
              to.name, bytes, rounds[kRounds / 2], rounds[kRounds * 99 / 100]);
}

// Copies over every lane while `kernels` kernels spin; no copy may wait for them.
void check_beside_kernels(const Rig& rig, const gdr::cuda::PrimaryContext& context, int kernels) {
  const CopyEnd& host = rig.ends[0];
  const CopyEnd& gpu = rig.ends[1];
  auto* word = reinterpret_cast<uint32_t*>(host.bytes + kBuffer - sizeof(uint32_t));
  *word = 0;
  gdr::cuda::CurrentContext current(context);
  auto spinning = gpu_test::SpinKernels::launch(context, word, kernels);
  if (!spinning) {
    std::printf("with spinning kernels: not run, %s\n", spinning.error().text.c_str());
    return;
  }
  int stalled = 0;
  for (uint32_t lane = 0; lane < GpuCopier::kLanesPerDevice; ++lane) {
    for (auto [to, from] : {std::pair{&gpu, &host}, {&host, &gpu}, {&rig.ends[2], &gpu}}) {
      auto ticket = rig.copier->copy(rig.copier->lane(0, lane), to->bytes, from->bytes, kChunk);
      if (!ticket || !wait(rig.copier, *ticket)) ++stalled;
    }
  }
  std::printf("with %3d spinning kernels: %d of %u copies stalled\n", kernels, stalled,
              3 * GpuCopier::kLanesPerDevice);
  check(stalled == 0, "copies stall behind kernels");
}

gdr::Result<Rig> make_rig(const std::vector<GpuWorkspace>& gpus,
                          std::vector<GpuWorkspace::Memory>& memory, size_t total) {
  Rig rig{GpuCopier::get(), {}, total};
  if (rig.copier == nullptr) return gdr::fail(gdr::Code::kInternal, "libcuda is not seen");
  for (const GpuWorkspace& gpu : gpus) {
    if (gdr::Status ready = rig.copier->prepare(gpu.device()); !ready) return forward_error(ready);
  }
  void* host = mmap(nullptr, kBuffer, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (host == MAP_FAILED) return gdr::fail(gdr::Code::kSystem, "mmap");
  if (gdr::Status pinned = rig.copier->pin_host(host, kBuffer); !pinned) {
    return forward_error(pinned);
  }
  rig.ends.push_back({"host", static_cast<char*>(host), 0});
  std::vector<std::pair<const char*, const GpuWorkspace*>> wanted = {{"gpu0", &gpus[0]},
                                                                     {"gpu0'", &gpus[0]}};
  if (gpus.size() > 1) wanted.push_back({"gpu1", &gpus[1]});
  for (auto [name, gpu] : wanted) {
    gdr::Result<GpuWorkspace::Memory> made = gpu->allocate(kBuffer);
    if (!made) return forward_error(made);
    int owner = rig.copier->device_of(made->get(), kBuffer);
    check(owner == gpu->device(), std::string("device_of ") + name);
    rig.ends.push_back({name, static_cast<char*>(made->get()), gpu->device()});
    memory.push_back(std::move(*made));
  }
  return rig;
}

gdr::Status run(const CudaDriver& driver, int devices, size_t total) {
  std::vector<GpuWorkspace> gpus;
  for (int i = 0; i < std::min(devices, 2); ++i) {
    gdr::Result<GpuWorkspace> gpu = GpuWorkspace::open(driver, i);
    if (!gpu) return forward_error(gpu);
    std::printf("gpu %d: pci %s, dma-buf %s\n", i, driver.pci_bus_id(i).value_or("?").c_str(),
                driver.dmabuf_supported(i).value_or(false) ? "yes" : "no");
    gpus.push_back(std::move(*gpu));
  }
  std::vector<GpuWorkspace::Memory> memory;
  gdr::Result<Rig> rig = make_rig(gpus, memory, total);
  if (!rig) return forward_error(rig);
  bool events = rig->copier->completion(0) == softhca::GpuCompletion::kEvent;
  std::printf("completion by %s\n", events ? "events" : "stream writes");

  const std::vector<CopyEnd>& ends = rig->ends;
  std::vector<std::pair<const CopyEnd*, const CopyEnd*>> pairs = {
      {&ends[0], &ends[1]}, {&ends[1], &ends[0]}, {&ends[1], &ends[2]}};
  if (ends.size() > 3) pairs.insert(pairs.end(), {{&ends[1], &ends[3]}, {&ends[3], &ends[0]}});
  for (auto [from, to] : pairs) check_bytes(*rig, gpus[0], *from, *to);
  gdr::Result<gdr::cuda::PrimaryContext> context =
      gdr::cuda::PrimaryContext::retain(driver.api(), 0);
  if (!context) return forward_error(context);
  for (int kernels : {1, 8, 40}) check_beside_kernels(*rig, *context, kernels);
  for (auto [from, to] : pairs) {
    for (uint32_t lanes : {1u, 4u, 8u}) measure_bandwidth(*rig, *from, *to, lanes);
  }
  for (auto [from, to] : pairs) {
    for (size_t bytes : {size_t{8}, kChunk}) measure_latency(*rig, *from, *to, bytes);
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const gdr::Result<CudaDriver>& driver = CudaDriver::shared();
  gdr::Result<int> devices = driver ? driver->device_count() : gdr::Result<int>(0);
  if (!devices || *devices == 0) {
    std::printf("no GPU: %s\n", driver ? "no device" : driver.error().text.c_str());
    return 77;
  }
  if (argc > 1 && std::string_view(argv[1]) == "event") {
    GpuCopier::get()->set_completion(softhca::GpuCompletion::kEvent);
  }
  size_t total = (argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 4096) << 20;
  gdr::Status status = run(*driver, *devices, total);
  if (!status) check(false, status.error().text);
  std::printf("%s\n", g_failures == 0 ? "passed" : "failed");
  return g_failures == 0 ? 0 : 1;
}

#include "tools/perf/rank_memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <string_view>

#include "drivers/cuda/cuda_driver.h"

namespace gdr::tools {
namespace {
constexpr size_t kMaxSpecs = 2;

std::optional<MemorySpec> parse_spec(std::string_view text) {
  constexpr std::string_view kNumbered = "cuda:";
  if (text == "host") return MemorySpec{};
  if (text == "cuda") return MemorySpec{true, -1};
  if (!text.starts_with(kNumbered)) return std::nullopt;
  MemorySpec spec{true, -1};
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data() + kNumbered.size(), end, spec.device);
  bool number = error == std::errc{} && stop == end && text[kNumbered.size()] != '-';
  return number ? std::optional(spec) : std::nullopt;
}
}  // namespace

Result<std::vector<MemorySpec>> parse_memory_specs(const std::string& text) {
  std::vector<MemorySpec> specs;
  std::string_view rest = text;
  for (bool more = true; more;) {
    size_t comma = rest.find(',');
    std::string_view word = rest.substr(0, comma);
    std::optional<MemorySpec> spec = parse_spec(word);
    if (!spec) {
      return fail(Code::kInvalidArgument,
                  fmt::format("\"{}\" cannot be used: use host, cuda or cuda:N", word));
    }
    specs.push_back(*spec);
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
  }
  if (specs.size() > kMaxSpecs) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} entries; give one for all ranks or one per side", specs.size()));
  }
  return specs;
}

namespace {
constexpr size_t kPageBytes = 4096;
// The page size of GPUDirect RDMA, and the largest page size of hosts with GPUs.
constexpr size_t kGpuPage = size_t{64} << 10;
}  // namespace

Result<Buffer> Buffer::host(size_t bytes) {
  Buffer buffer;
  size_t rounded = (bytes + kPageBytes) / kPageBytes * kPageBytes;
  buffer.host_.reset(static_cast<char*>(std::aligned_alloc(kPageBytes, rounded)));
  if (!buffer.host_) return fail(Code::kSystem, fmt::format("no memory for {} bytes", bytes));
  std::memset(buffer.host_.get(), 0, rounded);
  buffer.data_ = buffer.host_.get();
  buffer.bytes_ = bytes;
  return buffer;
}

Result<Buffer> Buffer::cuda(const cuda::GpuWorkspace& gpu, size_t bytes) {
  Buffer buffer;
  size_t rounded = (bytes + kGpuPage) / kGpuPage * kGpuPage;
  // Small allocations may begin anywhere within a page.
  auto memory = gpu.allocate(rounded + kGpuPage);
  if (!memory) {
    memory.error().text += fmt::format(", asked for {} bytes", bytes);
    return forward_error(memory);
  }
  auto begin = reinterpret_cast<uintptr_t>(memory->get());
  buffer.data_ = static_cast<char*>(memory->get()) + (kGpuPage - begin % kGpuPage) % kGpuPage;
  buffer.device_.emplace(std::move(*memory));
  buffer.bytes_ = bytes;
  if (Status zeroed = gpu.fill(buffer.data_, 0, rounded); !zeroed) return forward_error(zeroed);
  return buffer;
}

namespace {
// Returns the driver's number of the device that the spec asks for.
Result<int> device_of(const MemorySpec& spec, int rank, const cuda::CudaDriver& driver) {
  auto count = driver.device_count();
  if (!count) return forward_error(count);
  if (*count == 0) return fail(Code::kUnsupported, "there is no CUDA device");
  if (spec.device < 0) return rank % *count;
  if (spec.device < *count) return spec.device;
  return fail(Code::kInvalidUsage, fmt::format("there are CUDA devices 0..{}", *count - 1));
}
}  // namespace

Result<RankMemory> RankMemory::open(const MemorySpec& spec, int rank) {
  RankMemory memory;
  if (!spec.cuda) return memory;
  auto because = [&](const Error& error) {
    std::string asked = spec.device < 0 ? "cuda" : fmt::format("cuda:{}", spec.device);
    return fail(error.code, fmt::format("--memory {}: {}", asked, error.text));
  };
  const Result<cuda::CudaDriver>& driver = cuda::CudaDriver::shared();
  if (!driver) return because(driver.error());
  auto device = device_of(spec, rank, *driver);
  if (!device) return because(device.error());
  auto gpu = cuda::GpuWorkspace::open(*driver, *device);
  if (!gpu) return because(gpu.error());
  if (Status current = gpu->set_current(); !current) return because(current.error());
  auto exports = driver->dmabuf_supported(*device);
  if (!exports) return because(exports.error());
  auto pci = driver->pci_bus_id(*device);
  if (!pci) return because(pci.error());
  memory.gpu_.emplace(std::move(*gpu));
  memory.exports_dmabuf_ = *exports;
  memory.text_ = fmt::format("cuda:{} ({})", *device, *pci);
  return memory;
}

Result<Buffer> RankMemory::allocate(size_t bytes) const {
  return gpu_ ? Buffer::cuda(*gpu_, bytes) : Buffer::host(bytes);
}

const char* describe(RegisteredBy by) {
  constexpr const char* kTexts[] = {"host address", "device address", "dma-buf"};
  return kTexts[static_cast<size_t>(by)];
}

std::string ptr_support_text(int bits) {
  std::vector<const char*> names;
  if ((bits & abi::kPtrHost) != 0) names.push_back("HOST");
  if ((bits & abi::kPtrCuda) != 0) names.push_back("CUDA");
  if ((bits & abi::kPtrDmaBuf) != 0) names.push_back("DMABUF");
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, "|"));
}

Result<RegisteredBy> choose_for_cuda(const std::string& device, int ptr_support,
                                     bool exports_dmabuf) {
  bool takes_dmabuf = (ptr_support & abi::kPtrDmaBuf) != 0;
  if (takes_dmabuf && exports_dmabuf) return RegisteredBy::kDmaBuf;
  if ((ptr_support & abi::kPtrCuda) != 0) return RegisteredBy::kDeviceAddress;
  std::string text =
      fmt::format("{} of the plugin has ptrSupport {}: ", device, ptr_support_text(ptr_support));
  text += takes_dmabuf ? "it takes dma-bufs, which this GPU's driver does not export (NVIDIA's "
                         "open kernel modules do), and no device addresses"
                       : "it takes neither dma-bufs nor device addresses, so no CUDA memory";
  return fail(Code::kUnsupported, text + "; device addresses need nvidia-peermem");
}

namespace {
// The returned descriptor may be closed once the plugin has registered the memory: NCCL closes it
// then, too.
Result<UniqueFd> export_buffer(const Buffer& buffer) {
  auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return cuda::export_dmabuf(buffer.data(), (buffer.bytes() + page - 1) / page * page);
}

Result<void*> call_plugin(Net& net, void* comm, const Buffer& buffer, RegisteredBy by) {
  void* mhandle = nullptr;
  abi::ncclResult_t result;
  if (by == RegisteredBy::kDmaBuf) {
    auto fd = export_buffer(buffer);
    if (!fd) return forward_error(fd);
    result = net.reg_mr_dmabuf(comm, buffer.data(), buffer.bytes(), abi::kPtrCuda, 0, fd->get(),
                               &mhandle);
  } else {
    int type = by == RegisteredBy::kHostAddress ? abi::kPtrHost : abi::kPtrCuda;
    result = net.reg_mr(comm, buffer.data(), buffer.bytes(), type, &mhandle);
  }
  if (result == abi::ncclSuccess) return mhandle;
  const char* entry = by == RegisteredBy::kDmaBuf ? "regMrDmaBuf" : "regMr";
  return fail(Code::kSystem, fmt::format("{} of {} bytes by {}: {}", entry, buffer.bytes(),
                                         describe(by), describe(result)));
}
}  // namespace

Result<Registration> register_memory(Net& net, void* comm, const Buffer& buffer, RegisteredBy by) {
  auto mhandle = call_plugin(net, comm, buffer, by);
  if (!mhandle) return forward_error(mhandle);
  return Registration(*mhandle, Deregister{&net, comm});
}

}  // namespace gdr::tools

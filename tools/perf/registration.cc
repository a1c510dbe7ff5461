#include "tools/perf/registration.h"

#include <fmt/format.h>
#include <unistd.h>

#include "drivers/cuda/cuda_driver.h"
#include "tools/common/plugin_loader.h"

namespace gdr::tools {

const char* describe(RegisteredBy by) {
  switch (by) {
    case RegisteredBy::kHostAddress:
      return "host address";
    case RegisteredBy::kDeviceAddress:
      return "device address";
    case RegisteredBy::kDmaBuf:
      return "dma-buf";
  }
  return "?";
}

std::string ptr_support_text(int bits) {
  std::string text;
  auto add = [&](int bit, const char* name) {
    if ((bits & bit) == 0) return;
    if (!text.empty()) text += '|';
    text += name;
  };
  add(abi::kPtrHost, "HOST");
  add(abi::kPtrCuda, "CUDA");
  add(abi::kPtrDmaBuf, "DMABUF");
  return text.empty() ? "none" : text;
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
// The descriptor may go when the plugin has the memory, as NCCL closes it then.
Result<UniqueFd> export_buffer(const Buffer& buffer) {
  auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return cuda::export_dmabuf(buffer.data(), (buffer.bytes() + page - 1) / page * page);
}

Result<void*> call_plugin(const abi::ncclNet_v8_t& net, void* comm, const Buffer& buffer,
                          RegisteredBy by) {
  void* mhandle = nullptr;
  abi::ncclResult_t result;
  if (by == RegisteredBy::kDmaBuf) {
    auto fd = export_buffer(buffer);
    if (!fd) return forward_error(fd);
    result =
        net.regMrDmaBuf(comm, buffer.data(), buffer.bytes(), abi::kPtrCuda, 0, fd->get(), &mhandle);
  } else {
    int type = by == RegisteredBy::kHostAddress ? abi::kPtrHost : abi::kPtrCuda;
    result = net.regMr(comm, buffer.data(), buffer.bytes(), type, &mhandle);
  }
  if (result == abi::ncclSuccess) return mhandle;
  const char* entry = by == RegisteredBy::kDmaBuf ? "regMrDmaBuf" : "regMr";
  return fail(Code::kSystem, fmt::format("{} of {} bytes by {}: {}", entry, buffer.bytes(),
                                         describe(by), describe(result)));
}
}  // namespace

Result<Registration> register_memory(const abi::ncclNet_v8_t& net, void* comm, const Buffer& buffer,
                                     RegisteredBy by) {
  auto mhandle = call_plugin(net, comm, buffer, by);
  if (!mhandle) return forward_error(mhandle);
  return Registration(*mhandle, Deregister{&net, comm});
}

}  // namespace gdr::tools

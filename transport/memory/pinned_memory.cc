#include "transport/memory/pinned_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace gdr::transport {

Result<std::unique_ptr<PinnedMemory>> PinnedMemory::create(const cuda::CudaDriver& driver,
                                                           int device, size_t bytes) {
  Result<cuda::PrimaryContext> context = cuda::PrimaryContext::retain(driver.api(), device);
  if (!context) return forward_error(context);
  auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_t rounded = (bytes + page - 1) / page * page;
  void* address = mmap(nullptr, rounded, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (address == MAP_FAILED) {
    return fail_errno(Code::kSystem,
                      "allocating " + std::to_string(rounded) + " bytes of host memory failed",
                      errno);
  }
  std::unique_ptr<PinnedMemory> memory(new PinnedMemory(std::move(*context), address, rounded));
  cuda::CurrentContext current(memory->context_);
  if (!current.status()) return tl::unexpected(current.status().error());
  cuda::Rc rc = driver.api().mem_host_register(address, rounded, cuda::kHostRegisterPortable);
  if (rc != cuda::kSuccess) {
    return driver.failed("page-locking " + std::to_string(rounded) + " bytes of host memory", rc);
  }
  memory->pinned_ = true;
  return memory;
}

PinnedMemory::~PinnedMemory() {
  if (cuda::CurrentContext current(context_); pinned_ && current.status()) {
    context_.api().mem_host_unregister(address_);
  }
  munmap(address_, bytes_);
}

}  // namespace gdr::transport

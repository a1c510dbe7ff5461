#include "transport/memory/registered_block.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "transport/memory/system_facts.h"

namespace gdr::transport {

void* allocate_pages(size_t bytes) {
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_t rounded = (bytes + page - 1) / page * page;
  void* memory = std::aligned_alloc(page, rounded);
  if (memory != nullptr) std::memset(memory, 0, rounded);
  return memory;
}

Result<verbs::UniqueMr> register_block(const HcaContext& hca, void* memory, size_t bytes) {
  if (memory == nullptr) return fail_errno(Code::kSystem, "out of memory", ENOMEM);
  constexpr int kOwnAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  ibv_mr* mr = hca.api().reg_mr(hca.pd(), memory, bytes, kOwnAccess);
  if (mr == nullptr) {
    const int err = errno;
    return fail_making(hca, "registering the transport's own memory on " + hca.name() + " failed",
                       err);
  }
  return verbs::UniqueMr(mr, {&hca.api()});
}

}  // namespace gdr::transport

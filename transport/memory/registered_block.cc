#include "transport/memory/registered_block.h"

#include <cerrno>

#include "transport/memory/system_facts.h"

namespace gdr::transport {

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

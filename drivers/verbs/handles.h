// Owning pointers to verbs objects: each destroys its object by the Api that made it. The Api must
// outlive them. The order of destruction is the owner's job: the kernel rejects (EBUSY) the
// destruction of a CQ or protection domain that a QP or MR still uses.
#pragma once

#include <memory>

#include "drivers/verbs/verbs_api.h"

namespace gdr::verbs {

// Calls the member `Destroy` of an Api.
template <auto Destroy>
struct VerbsDeleter {
  const Api* api = nullptr;
  template <class Object>
  void operator()(Object* object) const {
    (void)(api->*Destroy)(object);
  }
};

// An array that ends with null, of devices that are not owned.
using UniqueDeviceList = std::unique_ptr<ibv_device*, VerbsDeleter<&Api::free_device_list>>;
using UniqueContext = std::unique_ptr<ibv_context, VerbsDeleter<&Api::close_device>>;
using UniquePd = std::unique_ptr<ibv_pd, VerbsDeleter<&Api::dealloc_pd>>;
using UniqueMr = std::unique_ptr<ibv_mr, VerbsDeleter<&Api::dereg_mr>>;
using UniqueCq = std::unique_ptr<ibv_cq, VerbsDeleter<&Api::destroy_cq>>;
using UniqueQp = std::unique_ptr<ibv_qp, VerbsDeleter<&Api::destroy_qp>>;

}  // namespace gdr::verbs

// Owners of verbs objects. The VerbsApi outlives them (it is never unloaded).
#pragma once

#include <memory>

#include "drivers/verbs/verbs_api.h"

namespace gdr::verbs {

template <auto Destroy>
struct VerbsDeleter {
  const VerbsApi* api = nullptr;
  template <class Object>
  void operator()(Object* object) const {
    (void)(api->*Destroy)(object);
  }
};

using UniqueContext = std::unique_ptr<ibv_context, VerbsDeleter<&VerbsApi::close_device>>;
using UniquePd = std::unique_ptr<ibv_pd, VerbsDeleter<&VerbsApi::dealloc_pd>>;
using UniqueMr = std::unique_ptr<ibv_mr, VerbsDeleter<&VerbsApi::dereg_mr>>;
using UniqueCq = std::unique_ptr<ibv_cq, VerbsDeleter<&VerbsApi::destroy_cq>>;
using UniqueQp = std::unique_ptr<ibv_qp, VerbsDeleter<&VerbsApi::destroy_qp>>;

}  // namespace gdr::verbs

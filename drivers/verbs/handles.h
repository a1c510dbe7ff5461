// Owners of verbs objects. The Api outlives them (it is never unloaded).
#pragma once

#include <memory>

#include "drivers/verbs/verbs_api.h"

namespace gdr::verbs {

template <auto Destroy>
struct VerbsDeleter {
  const Api* api = nullptr;
  template <class Object>
  void operator()(Object* object) const {
    (void)(api->*Destroy)(object);
  }
};

using UniqueContext = std::unique_ptr<ibv_context, VerbsDeleter<&Api::close_device>>;
using UniquePd = std::unique_ptr<ibv_pd, VerbsDeleter<&Api::dealloc_pd>>;
using UniqueMr = std::unique_ptr<ibv_mr, VerbsDeleter<&Api::dereg_mr>>;
using UniqueCq = std::unique_ptr<ibv_cq, VerbsDeleter<&Api::destroy_cq>>;
using UniqueQp = std::unique_ptr<ibv_qp, VerbsDeleter<&Api::destroy_qp>>;

}  // namespace gdr::verbs

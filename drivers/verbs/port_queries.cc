#include "drivers/verbs/port_queries.h"

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace gdr::verbs {
namespace {

// The library is passed the size of the caller's structure: it fills as much as both know, and
// zeroes the rest.
int query_extended(ibv_context* context, uint8_t port, void* attr, size_t bytes) {
  std::memset(attr, 0, bytes);
  verbs_context* extended = verbs_get_ctx_op(context, query_port);
  if (extended == nullptr) return EOPNOTSUPP;
  return extended->query_port(context, port, static_cast<ibv_port_attr*>(attr), bytes);
}

// active_speed_ex follows what older headers know of the structure.
template <class Attr>
constexpr size_t active_speed_ex_offset() {
  if constexpr (requires(Attr attr) { attr.active_speed_ex; }) {
    return offsetof(Attr, active_speed_ex);
  } else {
    return sizeof(Attr);
  }
}

constexpr size_t kActiveSpeedExOffset = 52;
static_assert(active_speed_ex_offset<ibv_port_attr>() == kActiveSpeedExOffset);

struct ExtendedAttr {
  alignas(ibv_port_attr) unsigned char known[kActiveSpeedExOffset];
  uint32_t active_speed_ex;
};
static_assert(sizeof(ExtendedAttr) >= sizeof(ibv_port_attr));

}  // namespace

int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attr) {
  return query_extended(context, port, attr, sizeof(*attr));
}

int query_active_speed_ex(ibv_context* context, uint8_t port, uint32_t* code) {
  ExtendedAttr attr;
  int err = query_extended(context, port, &attr, sizeof(attr));
  *code = err == 0 ? attr.active_speed_ex : 0;
  return err;
}

}  // namespace gdr::verbs

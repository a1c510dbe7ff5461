#include "drivers/verbs/port_queries.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gdr::verbs {
namespace {

// What an rdma-core with the field has behind query_port: its structure is 56 bytes long, with
// active_speed_ex at byte 52, and it fills no more than the caller has room for.
constexpr size_t kNewBytes = 56;
size_t g_library_bytes = kNewBytes;

int library_query_port(ibv_context*, uint8_t port, ibv_port_attr* attr, size_t bytes) {
  if (port != 1) return EINVAL;
  unsigned char full[kNewBytes] = {};
  ibv_port_attr known{};
  known.lid = 7;
  known.active_speed = 128;
  std::memcpy(full, &known, sizeof(known));
  const uint32_t xdr = 256;
  std::memcpy(full + 52, &xdr, sizeof(xdr));
  std::memset(static_cast<void*>(attr), 0, bytes);
  std::memcpy(static_cast<void*>(attr), full, std::min(bytes, g_library_bytes));
  return 0;
}

struct PortQueries : testing::Test {
  verbs_context extended{};
  PortQueries() {
    g_library_bytes = kNewBytes;
    extended.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    extended.sz = sizeof(extended);
    extended.query_port = library_query_port;
  }
  ibv_context* context() { return &extended.context; }
};

TEST_F(PortQueries, NewLibrary_FillsTheWideSpeed) {
  uint32_t code = 0;
  EXPECT_EQ(query_active_speed_ex(context(), 1, &code), 0);
  EXPECT_EQ(code, 256u);
  ibv_port_attr attr;
  EXPECT_EQ(query_port(context(), 1, &attr), 0);
  EXPECT_EQ(attr.lid, 7);
  EXPECT_EQ(attr.active_speed, 128);
}

TEST_F(PortQueries, OldLibrary_LeavesTheWideSpeedZero) {
  g_library_bytes = 52;
  uint32_t code = 1;
  EXPECT_EQ(query_active_speed_ex(context(), 1, &code), 0);
  EXPECT_EQ(code, 0u);
}

TEST_F(PortQueries, PortUnknown_IsTheLibrarysError) {
  uint32_t code = 1;
  EXPECT_EQ(query_active_speed_ex(context(), 2, &code), EINVAL);
  EXPECT_EQ(code, 0u);
}

TEST_F(PortQueries, ContextWithoutExtendedTable_IsUnsupported) {
  extended.context.abi_compat = nullptr;
  ibv_port_attr attr;
  EXPECT_EQ(query_port(context(), 1, &attr), EOPNOTSUPP);
}

}  // namespace
}  // namespace gdr::verbs

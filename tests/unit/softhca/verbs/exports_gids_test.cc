// The GID table and the LID of a port, and their changes.
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/unit/softhca/configured.h"
#include "tests/unit/softhca/endpoint.h"

namespace softhca_test {
namespace {

using GidTable = Configured;
using Lid = Configured;

TEST_F(GidTable, EntryRemoved_EventAndNoGidThere) {
  use(R"({"devices": [{"link_layer": "Ethernet"}, {"link_layer": "Ethernet"}],
      "faults": [{"kind": "gid_change", "device": "softhca0", "gid_index": 3, "after_ops": 1}]})");
  Endpoint a({.gid_index = 3});
  Endpoint b({.device = 1, .gid_index = 3});
  Address to_a = a.address();
  a.connect(b.address());
  b.connect(to_a);
  EXPECT_EQ(write_nothing(a), IBV_WC_SUCCESS);
  int port = 0;
  EXPECT_EQ(a.wait_event(&port), IBV_EVENT_GID_CHANGE);
  EXPECT_EQ(port, 1);
  EXPECT_EQ(a.query_port().gid_tbl_len, 4);
  ibv_gid gid = {};
  EXPECT_EQ(ibv_query_gid(a.context(), 1, 3, &gid), 0);
  EXPECT_EQ(gid.global.interface_id, 0u);
  ibv_gid_entry entries[8];
  EXPECT_EQ(ibv_query_gid_ex(a.context(), 1, 3, entries, 0), ENODATA);
  EXPECT_EQ(ibv_query_gid_ex(a.context(), 1, 4, entries, 0), EINVAL);
  EXPECT_EQ(ibv_query_gid_table(a.context(), entries, 8, 0), 3);
  EXPECT_EQ(sysfs(a.context(), "ports/1/gids/3"), "0000:0000:0000:0000:0000:0000:0000:0000");

  EXPECT_EQ(write_nothing(a), IBV_WC_SUCCESS) << "a connected QP keeps its GID";
  EXPECT_EQ(write_nothing(b), IBV_WC_SUCCESS);
  Endpoint late({.gid_index = 3});
  ASSERT_EQ(late.to_init(), 0);
  EXPECT_EQ(late.to_rtr(b.address()), ENODATA);
  // An end that read the table before the change addresses a GID that nobody has.
  Endpoint stale({.device = 1, .gid_index = 3});
  Endpoint other({.gid_index = 1});
  to_a.qpn = other.qp()->qp_num;
  stale.connect(to_a);
  EXPECT_EQ(write_nothing(stale), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(GidTable, EntryMoved_NewConnectionsUseItsNewPlace) {
  use(R"({"devices": [
      {"link_layer": "Ethernet", "ports": 2, "gids": ["::ffff:10.1.0.1"]},
      {"link_layer": "Ethernet"}],
      "faults": [
      {"kind": "gid_change", "device": "softhca0", "port": 2, "gid_index": 3, "at_s": 0.05},
      {"kind": "gid_change", "device": "softhca0", "port": 2, "gid_index": 5, "at_s": 0.05,
       "gid": "::ffff:10.1.0.2"}]})");
  Endpoint a({.port = 2, .gid_index = 5});
  EXPECT_EQ(a.query_port().gid_tbl_len, 6) << "room from the start";
  int port = 0;
  EXPECT_EQ(a.wait_event(&port), IBV_EVENT_GID_CHANGE);
  EXPECT_EQ(port, 2);
  EXPECT_EQ(a.wait_event(&port), IBV_EVENT_GID_CHANGE);
  ibv_gid_entry entry = {};
  EXPECT_EQ(ibv_query_gid_ex(a.context(), 2, 3, &entry, 0), ENODATA);
  ASSERT_EQ(ibv_query_gid_ex(a.context(), 2, 5, &entry, 0), 0);
  EXPECT_EQ(entry.gid.raw[15], 2);
  EXPECT_EQ(entry.gid_type, uint32_t{IBV_GID_TYPE_ROCE_V2});
  ibv_gid_entry entries[16];
  EXPECT_EQ(ibv_query_gid_table(a.context(), entries, 16, 0), 4 + 4);
  Endpoint b({.device = 1, .gid_index = 3});
  a.connect(b.address());
  b.connect(a.address());
  EXPECT_EQ(write_nothing(a), IBV_WC_SUCCESS);
}

TEST_F(Lid, Changed_EventAndOldAddressIsLost) {
  use(R"({"faults": [
      {"kind": "client_reregister", "device": "softhca0", "after_ops": 1},
      {"kind": "lid_change", "device": "softhca0", "lid": 300, "after_ops": 1}]})");
  Pair pair({}, {.device = 1});
  EXPECT_EQ(write_nothing(pair.a), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a.wait_event(), IBV_EVENT_CLIENT_REREGISTER);
  EXPECT_EQ(pair.a.wait_event(), IBV_EVENT_LID_CHANGE);
  EXPECT_EQ(pair.a.query_port().lid, 300);
  EXPECT_EQ(write_nothing(pair.b), IBV_WC_RETRY_EXC_ERR);
  Pair again({}, {.device = 1});
  EXPECT_EQ(write_nothing(again.b), IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace softhca_test

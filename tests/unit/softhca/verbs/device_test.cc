// What devices and ports report by their configuration.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "tests/unit/softhca/configured.h"
#include "tests/unit/softhca/endpoint.h"

// verbs.h of rdma-core 62 and later.
extern "C" int ibv_query_port_speed(ibv_context* context, uint32_t port, uint64_t* speed);

namespace softhca_test {
namespace {

using Device = Configured;

// ibv_port_attr with the field that rdma-core added.
struct PortAttr {
  ibv_port_attr attr;
  uint32_t active_speed_ex;
};

PortAttr query_ex(ibv_context* context, uint8_t port) {
  PortAttr attr;
  memset(&attr, 0xff, sizeof attr);
  verbs_context* verbs = verbs_get_ctx_op(context, query_port);
  EXPECT_EQ(verbs->query_port(context, port, &attr.attr, sizeof attr), 0);
  return attr;
}

TEST_F(Device, Xdr_EightBitsSayNdrAndExtendedFieldXdr) {
  use(R"({"devices": [{"link_speed": "XDR", "ports": 2, "port_settings": [
      {}, {"active_speed_ex": false, "link_width": "2x", "port_speed_gbps": 390.5}]}]})");
  ContextPtr context = open_device(0);
  PortAttr first = query_ex(context.get(), 1);
  EXPECT_EQ(first.attr.active_speed, 128);
  EXPECT_EQ(first.active_speed_ex, 256u);
  EXPECT_EQ(first.attr.active_width, 2);
  EXPECT_EQ(first.attr.port_cap_flags2, 1 << 5 | 1 << 10 | 1 << 12);
  PortAttr second = query_ex(context.get(), 2);
  EXPECT_EQ(second.attr.active_speed, 128);
  EXPECT_EQ(second.active_speed_ex, 0u);
  EXPECT_EQ(second.attr.active_width, 16);
  uint64_t speed = 7;
  EXPECT_EQ(ibv_query_port_speed(context.get(), 1, &speed), EOPNOTSUPP);
  EXPECT_EQ(ibv_query_port_speed(context.get(), 2, &speed), 0);
  EXPECT_EQ(speed, 3905u);
  EXPECT_EQ(ibv_query_port_speed(context.get(), 3, &speed), EINVAL);
  EXPECT_EQ(sysfs(context.get(), "ports/1/rate"), "800 Gb/sec (4X XDR)");
  EXPECT_EQ(sysfs(context.get(), "ports/2/rate"), "400 Gb/sec (2X XDR)");
}

TEST_F(Device, UnknownSpeed_IsReportedAsIs) {
  use(R"({"devices": [{"link_speed": 3}, {"link_speed": 512, "link_width": 32}]})");
  ContextPtr first = open_device(0);
  EXPECT_EQ(query_ex(first.get(), 1).attr.active_speed, 3);
  ContextPtr second = open_device(1);
  EXPECT_EQ(query_ex(second.get(), 1).active_speed_ex, 512u);
  EXPECT_EQ(query_ex(second.get(), 1).attr.active_width, 32);
}

// The kernel fails to read `rate` of a width that it does not know.
TEST_F(Device, SpeedOfZero_IsUnknownToVerbsAndSysfs) {
  use(R"({"devices": [{"speed_gbps": 0, "ports": 3, "port_settings": [
      {}, {"link_width": "4x"}, {"link_speed": "HDR"}]}]})");
  ContextPtr context = open_device(0);
  PortAttr unknown = query_ex(context.get(), 1);
  EXPECT_EQ(unknown.attr.active_speed, 0);
  EXPECT_EQ(unknown.attr.active_width, 0);
  EXPECT_EQ(unknown.active_speed_ex, 0u);
  PortAttr wide = query_ex(context.get(), 2);
  EXPECT_EQ(wide.attr.active_speed, 0);
  EXPECT_EQ(wide.attr.active_width, 2);
  EXPECT_EQ(query_ex(context.get(), 3).attr.active_speed, 64);
  for (const char* port : {"1", "2", "3"}) {
    const std::string folder = std::string("ports/") + port;
    EXPECT_EQ(sysfs(context.get(), folder + "/state"), "4: ACTIVE");
    EXPECT_EQ(sysfs(context.get(), folder + "/rate"), "");
  }
}

TEST_F(Device, VendorId_IsReported) {
  use(R"({"devices": [{"vendor_id": "1d0f"}, {}]})");
  ibv_device_attr attr = {};
  ASSERT_EQ(ibv_query_device(open_device(0).get(), &attr), 0);
  EXPECT_EQ(attr.vendor_id, 0x1d0fu);
  ASSERT_EQ(ibv_query_device(open_device(1).get(), &attr), 0);
  EXPECT_EQ(attr.vendor_id, 0x1af4u);
}

TEST_F(Device, UnspecifiedTransport_HasNoConnectedQps) {
  use(R"({"devices": [{"transport": "unspecified", "max_msg_sz": 8928}]})");
  ContextPtr context = open_device(0);
  EXPECT_EQ(context->device->node_type, IBV_NODE_UNSPECIFIED);
  EXPECT_EQ(context->device->transport_type, IBV_TRANSPORT_UNSPECIFIED);
  EXPECT_EQ(sysfs(context.get(), "node_type"), "7: unspecified");
  EXPECT_EQ(sysfs(context.get(), "ports/1/link_layer"), "Unspecified");
  ibv_port_attr port = {};
  ASSERT_EQ(ibv_query_port(context.get(), 1, &port), 0);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_UNSPECIFIED);
  EXPECT_EQ(port.max_msg_sz, 8928u);
  PdPtr pd(ibv_alloc_pd(context.get()));
  CqPtr cq(ibv_create_cq(context.get(), 4, nullptr, nullptr, 0));
  for (ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    errno = 0;
    EXPECT_EQ(make_qp(pd.get(), cq.get(), type), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
}

// "Local Length Error" of IBTA 11.6.2: the sum of the lengths exceeds the port's message size.
TEST_F(Device, SmallMaxMsgSz_LongerRequestsFail) {
  use(R"({"devices": [{"max_msg_sz": 1000}, {}]})");
  for (ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    Pair pair({}, {.device = 1});
    EXPECT_EQ(pair.a.query_port().max_msg_sz, 1000u);
    Buffer from(pair.a, 1001);
    Buffer to(pair.b, 1001);
    EXPECT_EQ(status_of(pair.a, Request(opcode, from.sge(0, 1000), to)), IBV_WC_SUCCESS);
    EXPECT_EQ(status_of(pair.a, Request(opcode, from.sge(), to)), IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
    EXPECT_EQ(pair.b.state(), IBV_QPS_RTS) << "nothing was sent";
  }
}

}  // namespace
}  // namespace softhca_test

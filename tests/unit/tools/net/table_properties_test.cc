// What getProperties of every version becomes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/tools/net/versions.h"
#include "tools/net/table_net.h"
#include "tools/net/table_types.h"

namespace gdr::tools {
namespace {
using testing::ElementsAre;

char g_name[] = "mlx5_0";
char g_path[] = "/sys/devices/pci0000:00";

// Sets every field that the version has to a value of its own.
template <class Properties>
abi::ncclResult_t all_fields(int dev, Properties* p) {
  if (dev != 4) return abi::ncclInvalidArgument;
  p->name = g_name;
  p->pciPath = g_path;
  p->guid = 0x1122334455667788;
  p->ptrSupport = 7;
  p->speed = 400000;
  p->port = 2;
  p->latency = 1.5F;
  p->maxComms = 1000;
  p->maxRecvs = 8;
  if constexpr (requires { p->netDeviceType; }) {
    p->netDeviceType = abi::kDeviceUnpack;
    p->netDeviceVersion = 9;
  }
  if constexpr (requires { p->regIsGlobal; }) p->regIsGlobal = 1;
  if constexpr (requires { p->forceFlush; }) p->forceFlush = 1;
  if constexpr (requires { p->vProps; }) {
    p->vProps.ndevs = 3;
    for (int i = 0; i < 3; ++i) p->vProps.devs[i] = 20 + i;
    p->maxP2pBytes = size_t{1} << 39;
    p->maxCollBytes = size_t{1} << 38;
  }
  if constexpr (requires { p->maxMultiRequestSize; }) p->maxMultiRequestSize = 5;
  if constexpr (requires { p->railId; }) {
    p->railId = 6;
    p->planeId = 7;
  }
  return abi::ncclSuccess;
}

template <class Version>
class TablePropertiesTest : public testing::Test {
 protected:
  static constexpr int kVersion = Version::value;

  void SetUp() override {
    table_.getProperties = &all_fields<typename TableTypes<kVersion>::Properties>;
    net_ = make_net(kVersion, &table_);
  }

  typename TableTypes<kVersion>::Table table_{};
  std::unique_ptr<Net> net_;
  NetProperties got_;
};

TYPED_TEST_SUITE(TablePropertiesTest, AllVersions, VersionName);

TYPED_TEST(TablePropertiesTest, FieldsOfAllVersions_ArePassed) {
  ASSERT_EQ(this->net_->properties(4, &this->got_), abi::ncclSuccess);
  const NetProperties& got = this->got_;
  EXPECT_EQ(got.name, g_name);
  EXPECT_EQ(got.pci_path, g_path);
  EXPECT_EQ(got.guid, 0x1122334455667788u);
  EXPECT_EQ(got.pointer_support, 7);
  EXPECT_EQ(got.speed_mbps, 400000);
  EXPECT_EQ(got.port, 2);
  EXPECT_EQ(got.latency_us, 1.5F);
  EXPECT_EQ(got.max_comms, 1000);
  EXPECT_EQ(got.max_recvs, 8);
}

TYPED_TEST(TablePropertiesTest, NewerFields_ArePassedOrAsNcclAssumes) {
  ASSERT_EQ(this->net_->properties(4, &this->got_), abi::ncclSuccess);
  const NetProperties& got = this->got_;
  constexpr int version = TypeParam::value;
  EXPECT_EQ(got.device_type, version >= 7 ? abi::kDeviceUnpack : abi::kDeviceHost);
  EXPECT_EQ(got.device_version, version >= 7 ? 9 : 0);
  EXPECT_EQ(got.reg_is_global, version >= 8 ? 1 : 0);
  EXPECT_EQ(got.force_flush, version >= 9 ? 1 : 0);
  EXPECT_EQ(got.max_p2p_bytes, size_t{1} << (version >= 9 ? 39 : 30));
  EXPECT_EQ(got.max_coll_bytes, size_t{1} << (version >= 9 ? 38 : 29));
  EXPECT_EQ(got.max_multi_request_size, version >= 11 ? 5 : 1);
  EXPECT_EQ(got.rail, version >= 12 ? 6 : -1);
  EXPECT_EQ(got.plane, version >= 12 ? 7 : -1);
  if (version >= 9) {
    EXPECT_EQ(got.merged.count, 3);
    EXPECT_THAT(got.merged.devices, ElementsAre(20, 21, 22, 0, 0, 0, 0, 0));
  } else {
    EXPECT_EQ(got.merged.count, 1);
    EXPECT_EQ(got.merged.devices[0], 4);
  }
}

TYPED_TEST(TablePropertiesTest, Error_LeavesThePropertiesAlone) {
  this->got_.port = 55;
  EXPECT_EQ(this->net_->properties(5, &this->got_), abi::ncclInvalidArgument);
  EXPECT_EQ(this->got_.port, 55);
}

}  // namespace
}  // namespace gdr::tools

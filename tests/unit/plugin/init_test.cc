// init and finalize of every version, where the user has disabled the plugin: without devices, so
// that no HCA is needed.
#include <gmock/gmock.h>

#include <cstdlib>

#include "plugin/communicator.h"
#include "tests/fakes/plugin_log.h"
#include "tests/unit/plugin/every_table.h"

namespace gdr::plugin {
namespace {

using ::testing::HasSubstr;

template <class Version>
class NetInit : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("NCCL_IB_DISABLE", "1", 1);
    PluginLog::clear();
  }
  static const auto& net() { return own_table(Version{}); }

  void* context_ = &context_;
};
TYPED_TEST_SUITE(NetInit, EveryTable, NameOfTable);

TYPED_TEST(NetInit, Disabled_SucceedsWithoutDevicesPropertiesAndConnections) {
  const auto& net = this->net();
  ASSERT_EQ(init(net, PluginLog::logger(), &this->context_), abi::ncclSuccess) << PluginLog::text();
  int count = -1;
  EXPECT_EQ(net.devices(&count), abi::ncclSuccess);
  EXPECT_EQ(count, 0);
  typename TypeParam::Properties properties;
  EXPECT_EQ(net.getProperties(0, &properties), abi::ncclInvalidArgument);
  EXPECT_THAT(PluginLog::text(), HasSubstr("getProperties: no such device"));
  char handle[abi::kHandleMaxBytes] = {};
  void* comm = nullptr;
  EXPECT_EQ(listen(net, this->context_, 0, handle, &comm), abi::ncclInvalidArgument);
  EXPECT_EQ(connect(net, this->context_, 0, handle, &comm), abi::ncclInvalidArgument);
  EXPECT_EQ(finalize(net, this->context_), abi::ncclSuccess);
}

TYPED_TEST(NetInit, Communicators_HaveContextsOfTheirOwn) {
  if constexpr (WithContexts<typename TypeParam::Type>) {
    const auto& net = this->net();
    void* second = nullptr;
    ASSERT_EQ(init(net, PluginLog::logger(), &this->context_, 106, 0xa), abi::ncclSuccess);
    ASSERT_EQ(init(net, PluginLog::logger(), &second, -1, 0xb), abi::ncclSuccess);
    EXPECT_NE(this->context_, second);
    EXPECT_EQ(static_cast<Communicator*>(this->context_)->connection->traffic_class, 106);
    EXPECT_EQ(static_cast<Communicator*>(second)->connection->traffic_class, std::nullopt);
    const std::string table = " uses table v" + std::to_string(TypeParam::kNumber);
    EXPECT_THAT(PluginLog::text(), HasSubstr("communicator 0xa" + table + ", traffic class 106\n"));
    EXPECT_THAT(PluginLog::text(), HasSubstr("communicator 0xb" + table + "\n"));
    EXPECT_EQ(finalize(net, this->context_), abi::ncclSuccess);
    EXPECT_EQ(static_cast<Communicator*>(second)->id, 0xbu);
    EXPECT_EQ(finalize(net, second), abi::ncclSuccess);
  }
}

// NCCL would give the plugin up for the whole process where a class that is too large is an error.
TYPED_TEST(NetInit, NullConfigurationOrTrafficClassTooLarge_HasNoTrafficClass) {
  if constexpr (WithContexts<typename TypeParam::Type>) {
    const auto& net = this->net();
    EXPECT_EQ(init(net, PluginLog::logger(), nullptr), abi::ncclInvalidArgument);
    void* second = nullptr;
    ASSERT_EQ(net.init(&this->context_, 1, nullptr, PluginLog::logger(), nullptr),
              abi::ncclSuccess);
    ASSERT_EQ(init(net, PluginLog::logger(), &second, 256), abi::ncclSuccess);
    EXPECT_THAT(PluginLog::text(), HasSubstr("the traffic class 256 of a communicator is ignored"));
    for (void* context : {this->context_, second}) {
      EXPECT_EQ(static_cast<Communicator*>(context)->connection->traffic_class, std::nullopt);
      EXPECT_EQ(finalize(net, context), abi::ncclSuccess);
    }
  }
}

}  // namespace
}  // namespace gdr::plugin

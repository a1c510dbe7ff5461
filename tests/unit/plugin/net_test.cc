// What every version of the table checks before it touches a device: arguments, and that init came
// first.
#include "plugin/net.h"

#include <gmock/gmock.h>

#include "plugin/tables.h"
#include "tests/fakes/recorded_log.h"
#include "tests/unit/plugin/every_table.h"

namespace gdr::plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class Version>
class NetArguments : public ::testing::Test {
 protected:
  using Table = typename Version::Type;
  static const Table& net() { return own_table(Version{}); }

  // The call returned ncclInvalidArgument and logged one warning with that text.
  void expect_invalid(abi::ncclResult_t result, const std::string& text) {
    EXPECT_EQ(result, abi::ncclInvalidArgument);
    EXPECT_THAT(log_.lines(), ElementsAre(HasSubstr("WARN NET/GDR : " + text)));
    log_.clear();
  }

  RecordedLog log_;
  char handle_[abi::kHandleMaxBytes] = {};
  void* comm_ = nullptr;
};
TYPED_TEST_SUITE(NetArguments, EveryTable, NameOfTable);

// NCCL calls irecvConsumed after every receive where it is not null.
TYPED_TEST(NetArguments, Table_HasItsNameAndNoDeviceOffload) {
  EXPECT_STREQ(this->net().name, "GDR");
  if constexpr (WithOffload<typename TypeParam::Type>) {
    EXPECT_EQ(this->net().getDeviceMr, nullptr);
    EXPECT_EQ(this->net().irecvConsumed, nullptr);
  }
}

TYPED_TEST(NetArguments, NullPointer_IsInvalid) {
  const auto& net = this->net();
  auto* handle = this->handle_;
  void** comm = &this->comm_;
  this->expect_invalid(net.devices(nullptr), "devices: a pointer is null");
  this->expect_invalid(net.getProperties(0, nullptr), "getProperties: a pointer is null");
  this->expect_invalid(listen(net, nullptr, 0, nullptr, comm), "listen: a pointer is null");
  this->expect_invalid(listen(net, nullptr, 0, handle, nullptr), "listen: a pointer is null");
  this->expect_invalid(connect(net, nullptr, 0, nullptr, comm), "connect: a pointer is null");
  this->expect_invalid(connect(net, nullptr, 0, handle, nullptr), "connect: a pointer is null");
  this->expect_invalid(accept(net, nullptr, comm), "accept: a pointer is null");
  this->expect_invalid(accept(net, handle, nullptr), "accept: a pointer is null");
  this->expect_invalid(net.regMr(nullptr, handle, 1, abi::kPtrHost, comm),
                       "regMr: a pointer is null");
  this->expect_invalid(net.regMr(handle, handle, 1, abi::kPtrHost, nullptr),
                       "regMr: a pointer is null");
}

TYPED_TEST(NetArguments, BeforeInit_HasNoDevicesAndConnectsNothing) {
  const auto& net = this->net();
  int count = -1;
  EXPECT_EQ(net.devices(&count), abi::ncclSuccess);
  EXPECT_EQ(count, 0);
  typename TypeParam::Properties properties;
  this->expect_invalid(net.getProperties(0, &properties), "getProperties: called before init");
  this->expect_invalid(listen(net, nullptr, 0, this->handle_, &this->comm_),
                       "listen: called before init");
  this->expect_invalid(connect(net, nullptr, 0, this->handle_, &this->comm_),
                       "connect: called before init");
}

TYPED_TEST(NetArguments, RegMr_NegativeSizeOrDescriptor_IsInvalid) {
  auto* const handle = this->handle_;
  this->expect_invalid(
      this->net().regMrDmaBuf(handle, handle, 1, abi::kPtrCuda, 0, -1, &this->comm_),
      "regMrDmaBuf: the file descriptor is negative");
  if constexpr (requires { &TypeParam::Type::regMr; } && TypeParam::kNumber < 8) {
    this->expect_invalid(this->net().regMr(handle, handle, -1, abi::kPtrHost, &this->comm_),
                         "regMr: the size is negative");
    EXPECT_EQ(this->comm_, nullptr);
  }
}

TYPED_TEST(NetArguments, CloseOfNothing_Succeeds) {
  const auto& net = this->net();
  EXPECT_EQ(net.closeSend(nullptr), abi::ncclSuccess);
  EXPECT_EQ(net.closeRecv(nullptr), abi::ncclSuccess);
  EXPECT_EQ(net.closeListen(nullptr), abi::ncclSuccess);
  EXPECT_EQ(net.deregMr(nullptr, nullptr), abi::ncclSuccess);
  EXPECT_EQ(finalize(net, nullptr), abi::ncclSuccess);
}

TYPED_TEST(NetArguments, MakeVDevice_NullPointerOrBeforeInit_IsInvalid) {
  if constexpr (WithVirtualDevices<typename TypeParam::Type>) {
    const auto& net = this->net();
    decltype(TypeParam::Properties::vProps) parts{2, {0, 1}};
    int device = -1;
    this->expect_invalid(net.makeVDevice(nullptr, &parts), "makeVDevice: a pointer is null");
    this->expect_invalid(net.makeVDevice(&device, nullptr), "makeVDevice: a pointer is null");
    this->expect_invalid(net.makeVDevice(&device, &parts), "makeVDevice: called before init");
    EXPECT_EQ(device, -1);
  }
}

}  // namespace
}  // namespace gdr::plugin

// What the table checks before it touches a device: arguments, and that init came first.
#include "plugin/net.h"

#include <gmock/gmock.h>

#include "plugin/tables.h"
#include "tests/fakes/recorded_log.h"

namespace gdr::plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const abi::ncclNet_v8_t& kNet = kNetV8;

class NetArguments : public ::testing::Test {
 protected:
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

TEST_F(NetArguments, NullPointer_IsInvalid) {
  expect_invalid(kNet.devices(nullptr), "devices: a pointer is null");
  expect_invalid(kNet.getProperties(0, nullptr), "getProperties: a pointer is null");
  expect_invalid(kNet.listen(0, nullptr, &comm_), "listen: a pointer is null");
  expect_invalid(kNet.listen(0, handle_, nullptr), "listen: a pointer is null");
  expect_invalid(kNet.connect(0, nullptr, &comm_, nullptr), "connect: a pointer is null");
  expect_invalid(kNet.connect(0, handle_, nullptr, nullptr), "connect: a pointer is null");
  expect_invalid(kNet.accept(nullptr, &comm_, nullptr), "accept: a pointer is null");
  expect_invalid(kNet.regMr(nullptr, handle_, 1, abi::kPtrHost, &comm_),
                 "regMr: a pointer is null");
}

TEST_F(NetArguments, BeforeInit_HasNoDevicesAndConnectsNothing) {
  int count = -1;
  EXPECT_EQ(kNet.devices(&count), abi::ncclSuccess);
  EXPECT_EQ(count, 0);
  abi::ncclNetProperties_v8_t properties;
  expect_invalid(kNet.getProperties(0, &properties), "getProperties: called before init");
  expect_invalid(kNet.listen(0, handle_, &comm_), "listen: called before init");
  expect_invalid(kNet.connect(0, handle_, &comm_, nullptr), "connect: called before init");
}

TEST_F(NetArguments, RegMrDmaBuf_NegativeDescriptor_IsInvalid) {
  expect_invalid(kNet.regMrDmaBuf(handle_, handle_, 1, abi::kPtrCuda, 0, -1, &comm_),
                 "regMrDmaBuf: the file descriptor is negative");
}

TEST_F(NetArguments, GroupedReceive_NumberOfBuffersOutOfRange_IsInvalidAndMakesNoRequest) {
  for (int count : {-1, 0, abi::kMaxRecvs + 1}) {
    void* request = handle_;
    expect_invalid(kNet.irecv(nullptr, count, nullptr, nullptr, nullptr, nullptr, &request),
                   "irecv: the number of buffers is not within 1 and 8");
    EXPECT_EQ(request, nullptr);
    request = handle_;
    expect_invalid(kNet.iflush(nullptr, count, nullptr, nullptr, nullptr, &request),
                   "iflush: the number of buffers is not within 1 and 8");
    EXPECT_EQ(request, nullptr);
  }
}

TEST_F(NetArguments, CloseOfNothing_Succeeds) {
  EXPECT_EQ(kNet.closeSend(nullptr), abi::ncclSuccess);
  EXPECT_EQ(kNet.closeRecv(nullptr), abi::ncclSuccess);
  EXPECT_EQ(kNet.closeListen(nullptr), abi::ncclSuccess);
  EXPECT_EQ(kNet.deregMr(nullptr, nullptr), abi::ncclSuccess);
}

TEST_F(NetArguments, Table_HasNoDeviceOffload) {
  EXPECT_STREQ(kNet.name, kName);
  EXPECT_EQ(kNet.getDeviceMr, nullptr);
  EXPECT_EQ(kNet.irecvConsumed, nullptr);
}

}  // namespace
}  // namespace gdr::plugin

// What the versions of the table convert: properties, and the calls of the data path over a
// connected pair of comms. That messages arrive, `nccl-gdr conformance` shows for every version.
#include "plugin/net_adapter.h"

#include <gmock/gmock.h>

#include <limits>
#include <span>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/plugin/every_table.h"
#include "tests/unit/transport/comm_pair.h"

namespace gdr::plugin {
namespace {

using ::testing::SizeIs;

DeviceProperties device_properties() {
  DeviceProperties device{};
  device.pointer_support = abi::kPtrHost | abi::kPtrCuda | abi::kPtrDmaBuf;
  device.part_count = 1;
  return device;
}

TEST(FillProperties, MergedDevice_NamesAsManyPartsAsTheTableHasRoomFor) {
  DeviceProperties device = device_properties();
  device.part_count = 6;
  device.parts = {7, 0, 3, 1, 9, 8};
  abi::ncclNetProperties_v12_t newest;
  fill_properties(device, false, &newest);
  EXPECT_EQ(newest.vProps.ndevs, 6);
  EXPECT_THAT(std::span(newest.vProps.devs, 6), testing::ElementsAre(7, 0, 3, 1, 9, 8));
  abi::ncclNetProperties_v9_t older;
  fill_properties(device, false, &older);
  EXPECT_EQ(older.vProps.ndevs, 4);
  EXPECT_EQ(older.vProps.devs[3], 1);
}

// Data Direct needs the flush after each receive, and is without GPU memory where NCCL does not do
// that.
TEST(FillProperties, DeviceThatNeedsTheFlush_AsksForItOrHasNoGpuMemory) {
  DeviceProperties device = device_properties();
  abi::ncclNetProperties_v8_t cannot_ask;
  fill_properties(device, /*nccl_flushes=*/false, &cannot_ask);
  EXPECT_EQ(cannot_ask.ptrSupport, 7);
  device.force_flush = true;
  fill_properties(device, /*nccl_flushes=*/false, &cannot_ask);
  EXPECT_EQ(cannot_ask.ptrSupport, abi::kPtrHost);
  fill_properties(device, /*nccl_flushes=*/true, &cannot_ask);
  EXPECT_EQ(cannot_ask.ptrSupport, 7);
  abi::ncclNetProperties_v9_t asks;
  fill_properties(device, /*nccl_flushes=*/false, &asks);
  EXPECT_EQ(asks.forceFlush, 1);
  EXPECT_EQ(asks.ptrSupport, 7);
}

// The data path of every version, over two comms in one process.
template <class Version>
class DataPath : public ::testing::Test {
 protected:
  using Table = typename Version::Type;
  using Size = SizeOf<Table>;
  static constexpr size_t kBytes = 64;
  static const Table& net() { return own_table(Version{}); }

  static void* marker() { return reinterpret_cast<void*>(abi::kOptionalReceiveCompletion); }
  void* sender() { return static_cast<transport::Comm*>(pair_.sender.get()); }
  void* receiver() { return static_cast<transport::Comm*>(pair_.receiver.get()); }

  abi::ncclResult_t post_receive(void** request, Size bytes = kBytes) {
    void* data = to_.data();
    void* memory = to_.memory.get();
    int tag = 0;
    return irecv(net(), receiver(), 1, &data, &bytes, &tag, &memory, request);
  }
  abi::ncclResult_t post_send(void** request, Size bytes = kBytes) {
    return isend(net(), sender(), from_.data(), bytes, 0, from_.memory.get(), request);
  }
  abi::ncclResult_t post_flush(void** request) {
    void* data = to_.data();
    void* memory = to_.memory.get();
    int bytes = kBytes;
    return net().iflush(receiver(), 1, &data, &bytes, &memory, request);
  }
  RecordedLog log_;
  transport::CommPair pair_;
  transport::Buffer from_ = pair_.sender_buffer(kBytes);
  transport::Buffer to_ = pair_.receiver_buffer(kBytes);
};
TYPED_TEST_SUITE(DataPath, EveryTable, NameOfTable);

TYPED_TEST(DataPath, NumberOfBuffersOutOfRange_IsInvalidAndOverwritesTheRequest) {
  const auto& net = this->net();
  const auto expect_warning = [this](const std::string& call) {
    EXPECT_THAT(this->log_.warnings(call + ": the number of buffers is not within 1 and 8"),
                SizeIs(1));
    this->log_.clear();
  };
  for (int count : {std::numeric_limits<int>::min(), -1, 0, abi::kMaxRecvs + 1,
                    std::numeric_limits<int>::max()}) {
    void* request = this->marker();
    EXPECT_EQ(irecv(net, this->receiver(), count, nullptr, nullptr, nullptr, nullptr, &request),
              abi::ncclInvalidArgument);
    EXPECT_EQ(request, nullptr);
    expect_warning("irecv");
    request = this->marker();
    EXPECT_EQ(net.iflush(this->receiver(), count, nullptr, nullptr, nullptr, &request),
              abi::ncclInvalidArgument);
    EXPECT_EQ(request, nullptr);
    expect_warning("iflush");
  }
}

TYPED_TEST(DataPath, FailedConnection_IsAnErrorAndOverwritesTheRequest) {
  this->pair_.sender->connection().fail(Code::kRemote, "the cable was cut");
  this->pair_.receiver->connection().fail(Code::kRemote, "the cable was cut");
  void* request = this->marker();
  EXPECT_EQ(this->post_receive(&request), abi::ncclRemoteError);
  EXPECT_EQ(request, nullptr);
  request = this->marker();
  EXPECT_EQ(this->post_send(&request), abi::ncclRemoteError);
  EXPECT_EQ(request, nullptr);
}

TYPED_TEST(DataPath, MoreFlushesThanThereMayBe_IsAnErrorAndOverwritesTheRequest) {
  void* request = this->marker();
  EXPECT_EQ(this->post_flush(&request), abi::ncclSuccess) << "of host memory";
  EXPECT_EQ(request, nullptr);
  this->to_.pose_as_gpu_memory();
  abi::ncclResult_t result = abi::ncclSuccess;
  for (int i = 0; i <= transport::Flushes::kRequests && result == abi::ncclSuccess; ++i) {
    request = this->marker();
    result = this->post_flush(&request);
    EXPECT_NE(request, this->marker());
  }
  EXPECT_EQ(result, abi::ncclInvalidUsage);
  EXPECT_EQ(request, nullptr);
}

// As size_t it is more than any buffer has.
TYPED_TEST(DataPath, NegativeSizeOfASend_FailsTheConnection) {
  if constexpr (!WithVirtualDevices<typename TypeParam::Type>) {
    void* request = this->marker();
    ASSERT_EQ(this->post_receive(&request), abi::ncclSuccess);
    request = this->marker();
    EXPECT_NE(this->post_send(&request, -1), abi::ncclSuccess);
    EXPECT_EQ(request, nullptr);
    EXPECT_EQ(this->to_.bytes[0], 'r');
  }
}

}  // namespace
}  // namespace gdr::plugin

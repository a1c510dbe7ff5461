// The converter of every version: what reaches the plugin's table, and what cannot. That buffers,
// tags and registrations of messages do, conformance_gdr_v6 to v12 show with data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/fakes/plugin_log.h"
#include "tests/unit/tools/net/recording_table.h"

namespace gdr::tools {
namespace {
using Arguments = std::vector<uint64_t>;
using testing::ElementsAre;
using testing::HasSubstr;

abi::ncclResult_t profiler(void**, int, void*, int64_t, void*) { return abi::ncclSuccess; }

// An argument as recording tables have it.
template <class T>
uint64_t at(T* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

class EveryTable : public testing::TestWithParam<int> {
 protected:
  EveryTable() {
    g_recorded = {};
    g_entries_return = abi::ncclSuccess;
    g_context_of_plugin = &context_target_;
    PluginLog::clear();
    settings_.logger = PluginLog::logger();
    settings_.id = 77;
    settings_.traffic_class = 106;
    settings_.profiler = &profiler;
  }

  // The last call reached that entry, and nothing else, and its result came back.
  void expect_passed(abi::ncclResult_t result, NetEntry entry, const Arguments& arguments) {
    EXPECT_EQ(result, g_entries_return);
    EXPECT_EQ(g_recorded.calls, 1);
    EXPECT_EQ(g_recorded.entry, entry);
    EXPECT_EQ(g_recorded.arguments, arguments);
    g_recorded = {};
    // The next call returns another result.
    g_entries_return = static_cast<abi::ncclResult_t>((g_entries_return + 1) % 7);
  }

  // The last call did not reach the plugin. It logged the text, where that is not empty.
  void expect_refused(abi::ncclResult_t result, const char* text = "") {
    EXPECT_EQ(result, abi::ncclInternalError);
    EXPECT_EQ(g_recorded.calls, 0);
    EXPECT_THAT(PluginLog::text(), HasSubstr(text));
    PluginLog::clear();
  }

  // The context that init gives to a communicator.
  void* context() {
    void* context = nullptr;
    EXPECT_EQ(net_.init(settings_, &context), abi::ncclSuccess);
    g_recorded = {};
    return context;
  }

  const int version_ = GetParam();
  int context_target_ = 0;
  char bytes_[64] = {};
  void* const comm_ = bytes_;
  void* const data_ = bytes_ + 1;
  void* out_ = nullptr;
  InitArguments settings_;
  ConvertedTable table_ =
      converted(version_, []<int kVersion>() { return recording_table<kVersion>(); });
  Net& net_ = *table_.net;
};

INSTANTIATE_TEST_SUITE_P(Net, EveryTable, testing::Range(kOldestTable, kNewestTable + 1),
                         [](const auto& table) { return "v" + std::to_string(table.param); });

TEST_P(EveryTable, NameAndEntries_AreThoseOfTheVersionThatAreNotNull) {
  EXPECT_EQ(net_.version(), version_);
  EXPECT_EQ(net_.contract().version, version_);
  EXPECT_STREQ(net_.name(), "Recorder");
  auto empty = converted(version_, []<int kVersion>() { return TableOf<kVersion>{}; });
  for (size_t i = 0; i < std::size(kNetEntries); ++i) {
    const NetEntry entry{static_cast<uint8_t>(i)};
    EXPECT_EQ(net_.has(entry), kNetEntries[i].since <= version_) << kNetEntries[i].name;
    EXPECT_FALSE(empty.net->has(entry)) << kNetEntries[i].name;
  }
}

TEST_P(EveryTable, Init_PassesWhatTheVersionCarries) {
  void* context = nullptr;
  abi::ncclResult_t result = net_.init(settings_, &context);
  Arguments arguments = {at(PluginLog::logger())};
  if (version_ >= 10) arguments.push_back(at(&profiler));
  if (version_ >= 11) arguments.insert(arguments.begin(), {at(&context), 77, 106});
  expect_passed(result, NetEntry::kInit, arguments);
  if (version_ != 10) {
    EXPECT_EQ(context, version_ >= 11 ? &context_target_ : nullptr);
  }
  g_entries_return = abi::ncclSystemError;
  result = net_.finalize(context);
  if (version_ >= 11) return expect_passed(result, NetEntry::kFinalize, {at(context)});
  EXPECT_EQ(result, abi::ncclSuccess);
  EXPECT_EQ(g_recorded.calls, 0);
}

TEST_P(EveryTable, FailedInit_LeavesNoContextOfTheConverter) {
  g_entries_return = abi::ncclSystemError;
  g_context_of_plugin = nullptr;
  void* context = bytes_;
  EXPECT_EQ(net_.init(settings_, &context), abi::ncclSystemError);
  EXPECT_EQ(context, nullptr);
}

TEST_P(EveryTable, Connecting_PassesContextOrTrafficClass) {
  void* ours = context();
  void** out = &out_;
  Arguments listen = {3, at(bytes_), at(out)};
  Arguments connect = {2, at(bytes_), at(out)};
  Arguments accept = {at(bytes_), at(out)};
  if (version_ == 10) connect.insert(connect.begin() + 1, 106);
  for (Arguments* each : {&listen, &connect}) {
    if (version_ >= 11) each->insert(each->begin(), at(ours));
  }
  for (Arguments* each : {&connect, &accept}) {
    if (version_ >= 7) each->push_back(1);
  }
  expect_passed(net_.listen(ours, 3, bytes_, out), NetEntry::kListen, listen);
  expect_passed(net_.connect(ours, 2, bytes_, out), NetEntry::kConnect, connect);
  expect_passed(net_.accept(bytes_, out), NetEntry::kAccept, accept);
  net_.finalize(ours);
}

using TableV10 = EveryTable;
INSTANTIATE_TEST_SUITE_P(Net, TableV10, testing::Values(10));

// From v11 the plugin keeps it itself.
TEST_P(TableV10, TwoCommunicators_KeepTheirTrafficClasses) {
  void* first = context();
  settings_.traffic_class = 32;
  void* second = context();
  net_.connect(first, 0, bytes_, &out_);
  EXPECT_EQ(g_recorded.arguments[1], 106u);
  net_.connect(second, 0, bytes_, &out_);
  EXPECT_EQ(g_recorded.arguments[1], 32u);
  net_.finalize(first);
  net_.finalize(second);
}

TEST_P(EveryTable, CallsThatAreTheSameInAllVersions_PassTheirArguments) {
  int number = 0;
  int size = 0;
  void** out = &out_;
  void* datas[] = {data_};
  void* mhandles[] = {bytes_ + 2};
  const size_t large = size_t{3} << 40;
  expect_passed(net_.devices(&number), NetEntry::kDevices, {at(&number)});
  expect_passed(net_.close_send(comm_), NetEntry::kCloseSend, {at(comm_)});
  expect_passed(net_.close_recv(comm_), NetEntry::kCloseRecv, {at(comm_)});
  expect_passed(net_.close_listen(comm_), NetEntry::kCloseListen, {at(comm_)});
  expect_passed(net_.reg_mr(comm_, data_, 4097, abi::kPtrCuda, out), NetEntry::kRegMr,
                {at(comm_), at(data_), 4097, abi::kPtrCuda, at(out)});
  expect_passed(net_.reg_mr_dmabuf(comm_, data_, large, abi::kPtrHost, 4096, 9, out),
                NetEntry::kRegMrDmaBuf,
                {at(comm_), at(data_), large, abi::kPtrHost, 4096, 9, at(out)});
  expect_passed(net_.dereg_mr(comm_, data_), NetEntry::kDeregMr, {at(comm_), at(data_)});
  expect_passed(net_.iflush(comm_, 1, datas, &size, mhandles, out), NetEntry::kIflush,
                {at(comm_), 1, at(datas), at(&size), at(mhandles), at(out)});
  expect_passed(net_.test(data_, &number, &size), NetEntry::kTest,
                {at(data_), at(&number), at(&size)});
}

TEST_P(EveryTable, OptionalCompletion_ReachesIrecvFromV9) {
  size_t size = 1;
  int tag = 0;
  void* data = data_;
  void* request = kOptionalCompletion;
  net_.irecv(comm_, 1, &data, &size, &tag, &data, &data, &request);
  EXPECT_EQ(g_recorded.request_on_entry, version_ >= 9 ? kOptionalCompletion : nullptr);
  // Any other value is passed on.
  request = bytes_;
  net_.irecv(comm_, 1, &data, &size, &tag, &data, &data, &request);
  EXPECT_EQ(g_recorded.request_on_entry, bytes_);
}

TEST_P(EveryTable, SizesTooLargeForInts_NeverReachThePlugin) {
  void* ours = context();  // brings the logger
  std::vector<size_t> sizes(65, 1);
  sizes[0] = abi::kAssumedP2pBytes + 1;
  int tag = 0;
  void* data = data_;
  auto send = [&](size_t bytes) { return net_.isend(comm_, data, bytes, tag, data, data, &out_); };
  auto receive = [&](int n) {
    return net_.irecv(comm_, n, &data, sizes.data(), &tag, &data, &data, &out_);
  };
  auto register_bytes = [&](size_t bytes) {
    return net_.reg_mr(comm_, data, bytes, abi::kPtrHost, &out_);
  };
  if (version_ < 9) {
    expect_refused(send(sizes[0]), "isend of 1073741825 bytes: version ");
    expect_refused(receive(1), "irecv of 1073741825 bytes: version ");
    expect_refused(receive(65), "irecv of 65 buffers: version ");
    sizes[0] = abi::kAssumedP2pBytes;
  }
  EXPECT_EQ(send(sizes[0]), abi::ncclSuccess);
  EXPECT_EQ(g_recorded.arguments[2], sizes[0]);
  EXPECT_EQ(receive(1), abi::ncclSuccess);
  EXPECT_THAT(g_recorded.sizes, ElementsAre(sizes[0]));
  g_recorded = {};
  size_t registered = size_t{1} << 31;
  if (version_ < 8) {
    expect_refused(register_bytes(registered--), "regMr of 2147483648 bytes: version ");
  }
  EXPECT_EQ(register_bytes(registered), abi::ncclSuccess);
  EXPECT_EQ(g_recorded.arguments[2], registered);
  net_.finalize(ours);
}

TEST_P(EveryTable, VirtualDevice_PassesTheDevicesThatTheVersionHolds) {
  void* ours = context();
  int dev = 0;
  auto result = net_.make_v_device(&dev, {4, {9, 8, 7, 6}});
  if (version_ < 9) {
    expect_refused(result);
  } else {
    ASSERT_EQ(g_recorded.entry, NetEntry::kMakeVDevice);
    EXPECT_EQ(g_recorded.arguments[0], at(&dev));
    g_recorded.merged.resize(5);  // v12 has more
    EXPECT_THAT(g_recorded.merged, ElementsAre(4, 9, 8, 7, 6));
    g_recorded = {};
    result = net_.make_v_device(&dev, {5, {9, 8, 7, 6, 5}});
    if (version_ < 12) {
      expect_refused(result, "makeVDevice of 5 devices: version ");
    } else {
      EXPECT_THAT(g_recorded.merged, ElementsAre(5, 9, 8, 7, 6, 5, 0, 0, 0));
    }
  }
  net_.finalize(ours);
}

TEST_P(EveryTable, NetAttributes_ReachThePluginFromV11) {
  void* ours = context();
  NetAttributes attributes{{1, 2, 3, 4}, {5, 6, 7, 8}, 9, 10, 11};
  auto result = net_.set_net_attr(ours, attributes);
  if (version_ < 11) {
    expect_refused(result);
  } else {
    EXPECT_EQ(result, abi::ncclSuccess);
    EXPECT_EQ(g_recorded.arguments[0], at(ours));
    EXPECT_EQ(g_recorded.attributes, attributes);
  }
  net_.finalize(ours);
}

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

// Checks what getProperties of every version becomes.
TEST_P(EveryTable, Properties_ArePassedOrAsNcclAssumes) {
  auto table = converted(version_, []<int kVersion>() {
    TableOf<kVersion> of_fields{};
    of_fields.getProperties = &all_fields;
    return of_fields;
  });
  NetProperties got;
  got.port = 55;
  EXPECT_EQ(table.net->properties(5, &got), abi::ncclInvalidArgument);
  EXPECT_EQ(got.port, 55) << "an error leaves them alone";
  ASSERT_EQ(table.net->properties(4, &got), abi::ncclSuccess);
  EXPECT_EQ(got.name, g_name);
  EXPECT_EQ(got.pci_path, g_path);
  EXPECT_EQ(got.guid, 0x1122334455667788u);
  EXPECT_EQ(got.pointer_support, 7);
  EXPECT_EQ(got.speed_mbps, 400000);
  EXPECT_EQ(got.port, 2);
  EXPECT_EQ(got.latency_us, 1.5F);
  EXPECT_EQ(got.max_comms, 1000);
  EXPECT_EQ(got.max_recvs, 8);
  EXPECT_EQ(got.device_type, version_ >= 7 ? abi::kDeviceUnpack : abi::kDeviceHost);
  EXPECT_EQ(got.device_version, version_ >= 7 ? 9 : 0);
  EXPECT_EQ(got.reg_is_global, version_ >= 8 ? 1 : 0);
  EXPECT_EQ(got.force_flush, version_ >= 9 ? 1 : 0);
  EXPECT_EQ(got.max_p2p_bytes, size_t{1} << (version_ >= 9 ? 39 : 30));
  EXPECT_EQ(got.max_coll_bytes, size_t{1} << (version_ >= 9 ? 38 : 29));
  EXPECT_EQ(got.max_multi_request_size, version_ >= 11 ? 5 : 1);
  EXPECT_EQ(got.rail, version_ >= 12 ? 6 : -1);
  EXPECT_EQ(got.plane, version_ >= 12 ? 7 : -1);
  if (version_ >= 9) {
    EXPECT_EQ(got.merged.count, 3);
    EXPECT_THAT(got.merged.devices, ElementsAre(20, 21, 22, 0, 0, 0, 0, 0));
  } else {
    EXPECT_EQ(got.merged.count, 1);
    EXPECT_EQ(got.merged.devices[0], 4);
  }
}

}  // namespace
}  // namespace gdr::tools

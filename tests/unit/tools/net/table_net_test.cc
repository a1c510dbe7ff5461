// The converter of every version: what reaches the plugin's table, and what cannot.
#include "tools/net/table_net.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdarg>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/unit/tools/net/recording_table.h"
#include "tests/unit/tools/net/versions.h"

namespace gdr::tools {
namespace {
using Arguments = std::vector<uint64_t>;
using testing::ElementsAre;
using testing::HasSubstr;

std::string g_logged;

void record_log(abi::ncclDebugLogLevel, unsigned long, const char*, int, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  g_logged = text;
}

abi::ncclResult_t profiler(void**, int, void*, int64_t, void*) { return abi::ncclSuccess; }

template <class Version>
class TableNetTest : public testing::Test {
 protected:
  static constexpr int kVersion = Version::value;

  void SetUp() override {
    g_recorded = {};
    g_entries_return = abi::ncclSuccess;
    g_context_of_plugin = &context_target_;
    g_logged.clear();
    settings_.logger = &record_log;
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

  void expect_refused(abi::ncclResult_t result, const char* text) {
    EXPECT_EQ(result, abi::ncclInternalError);
    EXPECT_EQ(g_recorded.calls, 0);
    EXPECT_THAT(g_logged, HasSubstr(text));
    g_logged.clear();
  }

  static uint64_t at(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }
  template <class Function>
  static uint64_t at_function(Function* function) {
    return reinterpret_cast<uint64_t>(function);
  }

  // The context that init gave to this communicator.
  void* context() {
    void* context = nullptr;
    EXPECT_EQ(net_->init(settings_, &context), abi::ncclSuccess);
    g_recorded = {};
    return context;
  }

  int context_target_ = 0;
  char bytes_[64] = {};
  void* out_ = nullptr;
  InitArguments settings_;
  typename TableTypes<kVersion>::Table table_ = recording_table<kVersion>();
  std::unique_ptr<Net> net_ = make_net(kVersion, &table_);
};

TYPED_TEST_SUITE(TableNetTest, AllVersions, VersionName);

TYPED_TEST(TableNetTest, Identity_IsTheTables) {
  EXPECT_EQ(this->net_->version(), this->kVersion);
  EXPECT_EQ(this->net_->contract().version, this->kVersion);
  EXPECT_STREQ(this->net_->name(), "Recorder");
}

TYPED_TEST(TableNetTest, Entries_AreThoseOfTheVersionThatAreNotNull) {
  typename TableTypes<TypeParam::value>::Table nothing{};
  auto empty = make_net(this->kVersion, &nothing);
  for (const EntryFacts& facts : net_entries()) {
    EXPECT_EQ(this->net_->has(facts.entry), facts.since <= this->kVersion) << facts.name;
    EXPECT_FALSE(empty->has(facts.entry)) << facts.name;
  }
}

TYPED_TEST(TableNetTest, Init_PassesWhatTheVersionCarries) {
  void* context = nullptr;
  abi::ncclResult_t result = this->net_->init(this->settings_, &context);
  uint64_t logger = this->at_function(&record_log);
  uint64_t events = this->at_function(&profiler);
  if (this->kVersion >= 11) {
    this->expect_passed(result, NetEntry::kInit, {this->at(&context), 77, 106, logger, events});
    EXPECT_EQ(context, &this->context_target_);
  } else if (this->kVersion == 10) {
    this->expect_passed(result, NetEntry::kInit, {logger, events});
  } else {
    this->expect_passed(result, NetEntry::kInit, {logger});
    EXPECT_EQ(context, nullptr);
  }
  g_recorded = {};
  g_entries_return = abi::ncclSystemError;
  result = this->net_->finalize(context);
  if (this->kVersion >= 11) {
    this->expect_passed(result, NetEntry::kFinalize, {this->at(context)});
  } else {
    EXPECT_EQ(result, abi::ncclSuccess);
    EXPECT_EQ(g_recorded.calls, 0);
  }
}

TYPED_TEST(TableNetTest, FailedInit_LeavesNoContextOfTheConverter) {
  g_entries_return = abi::ncclSystemError;
  g_context_of_plugin = nullptr;
  void* context = this->bytes_;
  EXPECT_EQ(this->net_->init(this->settings_, &context), abi::ncclSystemError);
  EXPECT_EQ(context, nullptr);
}

TYPED_TEST(TableNetTest, Connecting_PassesContextOrTrafficClass) {
  void* context = this->context();
  void** out = &this->out_;
  char* handle = this->bytes_;
  uint64_t ours = this->at(context);
  bool contexts = this->kVersion >= 11;
  this->expect_passed(this->net_->listen(context, 3, handle, out), NetEntry::kListen,
                      contexts ? Arguments{ours, 3, this->at(handle), this->at(out)}
                               : Arguments{3, this->at(handle), this->at(out)});
  Arguments connect = {2, this->at(handle), this->at(out)};
  if (this->kVersion == 10) connect.insert(connect.begin() + 1, 106);
  if (contexts) connect.insert(connect.begin(), ours);
  Arguments accept = {this->at(handle), this->at(out)};
  if (this->kVersion >= 7) {
    connect.push_back(1);
    accept.push_back(1);
  }
  this->expect_passed(this->net_->connect(context, 2, handle, out), NetEntry::kConnect, connect);
  this->expect_passed(this->net_->accept(handle, out), NetEntry::kAccept, accept);
  this->net_->finalize(context);
}

using TableNetV10 = TableNetTest<std::integral_constant<int, 10>>;

// From v11 the plugin keeps it itself.
TEST_F(TableNetV10, TwoCommunicators_KeepTheirTrafficClasses) {
  void* first = context();
  settings_.traffic_class = 32;
  void* second = context();
  net_->connect(first, 0, bytes_, &out_);
  EXPECT_EQ(g_recorded.arguments[1], 106u);
  net_->connect(second, 0, bytes_, &out_);
  EXPECT_EQ(g_recorded.arguments[1], 32u);
  net_->finalize(first);
  net_->finalize(second);
}

TYPED_TEST(TableNetTest, DevicesAndCloses_PassTheirArguments) {
  int number = 0;
  char* comm = this->bytes_;
  Net& net = *this->net_;
  this->expect_passed(net.devices(&number), NetEntry::kDevices, {this->at(&number)});
  this->expect_passed(net.close_send(comm), NetEntry::kCloseSend, {this->at(comm)});
  this->expect_passed(net.close_recv(comm), NetEntry::kCloseRecv, {this->at(comm)});
  this->expect_passed(net.close_listen(comm), NetEntry::kCloseListen, {this->at(comm)});
}

TYPED_TEST(TableNetTest, Registrations_PassTheirArguments) {
  char* comm = this->bytes_;
  char* data = this->bytes_ + 1;
  void** out = &this->out_;
  Net& net = *this->net_;
  this->expect_passed(net.reg_mr(comm, data, 4097, abi::kPtrCuda, out), NetEntry::kRegMr,
                      {this->at(comm), this->at(data), 4097, abi::kPtrCuda, this->at(out)});
  size_t large = size_t{3} << 40;
  this->expect_passed(
      net.reg_mr_dmabuf(comm, data, large, abi::kPtrHost, 4096, 9, out), NetEntry::kRegMrDmaBuf,
      {this->at(comm), this->at(data), large, abi::kPtrHost, 4096, 9, this->at(out)});
  this->expect_passed(net.dereg_mr(comm, data), NetEntry::kDeregMr,
                      {this->at(comm), this->at(data)});
}

TYPED_TEST(TableNetTest, Requests_PassTheirArguments) {
  Net& net = *this->net_;
  char* comm = this->bytes_;
  char* data = this->bytes_ + 1;
  char* mhandle = this->bytes_ + 2;
  char* phandle = this->bytes_ + 3;
  void** out = &this->out_;
  std::vector<uint64_t> send = {this->at(comm), this->at(data), 100, 7, this->at(mhandle)};
  if (this->kVersion >= 10) send.push_back(this->at(phandle));
  send.push_back(this->at(out));
  this->expect_passed(net.isend(comm, data, 100, 7, mhandle, phandle, out), NetEntry::kIsend, send);
  int done = 0;
  int size = 0;
  void* mhandles[] = {mhandle};
  void* datas[] = {data};
  this->expect_passed(
      net.iflush(comm, 1, datas, &size, mhandles, out), NetEntry::kIflush,
      {this->at(comm), 1, this->at(datas), this->at(&size), this->at(mhandles), this->at(out)});
  this->expect_passed(net.test(data, &done, &size), NetEntry::kTest,
                      {this->at(data), this->at(&done), this->at(&size)});
}

TYPED_TEST(TableNetTest, GroupedReceive_PassesEachSize) {
  char* comm = this->bytes_;
  void* datas[] = {this->bytes_, this->bytes_ + 1, this->bytes_ + 2};
  void* mhandles[] = {datas[2], datas[0], datas[1]};
  void* phandles[] = {datas[1], datas[2], datas[0]};
  size_t sizes[] = {0, 5, abi::kAssumedP2pBytes};
  int tags[] = {4, 3, 2};
  abi::ncclResult_t result =
      this->net_->irecv(comm, 3, datas, sizes, tags, mhandles, phandles, &this->out_);
  EXPECT_THAT(g_recorded.sizes, ElementsAre(0, 5, abi::kAssumedP2pBytes));
  ASSERT_GE(g_recorded.arguments.size(), 7u);
  uint64_t passed_sizes = g_recorded.arguments[3];  // ints are in an array of the converter
  if (this->kVersion >= 9) {
    EXPECT_EQ(passed_sizes, this->at(sizes));
  }
  std::vector<uint64_t> expected = {
      this->at(comm), 3, this->at(datas), passed_sizes, this->at(tags), this->at(mhandles)};
  if (this->kVersion >= 10) expected.push_back(this->at(phandles));
  expected.push_back(this->at(&this->out_));
  this->expect_passed(result, NetEntry::kIrecv, expected);
}

TYPED_TEST(TableNetTest, OptionalCompletion_ReachesIrecvFromV9) {
  void* data = this->bytes_;
  size_t size = 1;
  int tag = 0;
  void* request = kOptionalCompletion;
  this->net_->irecv(data, 1, &data, &size, &tag, &data, &data, &request);
  EXPECT_EQ(g_recorded.request_on_entry, this->kVersion >= 9 ? kOptionalCompletion : nullptr);
  // Any other value is passed on.
  request = this->bytes_;
  this->net_->irecv(data, 1, &data, &size, &tag, &data, &data, &request);
  EXPECT_EQ(g_recorded.request_on_entry, this->bytes_);
}

TYPED_TEST(TableNetTest, MessageTooLargeForInts_NeverReachesThePlugin) {
  void* context = this->context();  // brings the logger
  void* data = this->bytes_;
  size_t size = abi::kAssumedP2pBytes + 1;
  int tag = 0;
  void* request = nullptr;
  Net& net = *this->net_;
  auto send = net.isend(data, data, size, tag, data, data, &request);
  if (this->kVersion >= 9) {
    EXPECT_EQ(send, abi::ncclSuccess);
    EXPECT_EQ(g_recorded.arguments[2], size);
    net.irecv(data, 1, &data, &size, &tag, &data, &data, &request);
    EXPECT_THAT(g_recorded.sizes, ElementsAre(size));
  } else {
    this->expect_refused(send, "isend of 1073741825 bytes: version ");
    this->expect_refused(net.irecv(data, 1, &data, &size, &tag, &data, &data, &request),
                         "irecv of 1073741825 bytes: version ");
    std::vector<size_t> sizes(65, 1);
    this->expect_refused(net.irecv(data, 65, &data, sizes.data(), &tag, &data, &data, &request),
                         "irecv of 65 buffers: version ");
    size = abi::kAssumedP2pBytes;
    EXPECT_EQ(net.isend(data, data, size, tag, data, data, &request), abi::ncclSuccess);
    EXPECT_EQ(g_recorded.arguments[2], size);
  }
  net.finalize(context);
}

TYPED_TEST(TableNetTest, RegistrationTooLargeForInts_NeverReachesThePlugin) {
  void* context = this->context();
  size_t size = size_t{1} << 31;
  abi::ncclResult_t result =
      this->net_->reg_mr(this->bytes_, this->bytes_, size, abi::kPtrHost, &this->out_);
  if (this->kVersion >= 8) {
    EXPECT_EQ(result, abi::ncclSuccess);
    EXPECT_EQ(g_recorded.arguments[2], size);
  } else {
    this->expect_refused(result, "regMr of 2147483648 bytes: version ");
    this->net_->reg_mr(this->bytes_, this->bytes_, size - 1, abi::kPtrHost, &this->out_);
    EXPECT_EQ(g_recorded.arguments[2], size - 1);
  }
  this->net_->finalize(context);
}

TYPED_TEST(TableNetTest, VirtualDevice_PassesTheDevicesThatTheVersionHolds) {
  void* context = this->context();
  int dev = 0;
  MergedDevices four{4, {9, 8, 7, 6}};
  abi::ncclResult_t result = this->net_->make_v_device(&dev, four);
  if (this->kVersion < 9) {
    EXPECT_EQ(result, abi::ncclInternalError);
    EXPECT_EQ(g_recorded.calls, 0);
  } else {
    ASSERT_EQ(g_recorded.entry, NetEntry::kMakeVDevice);
    EXPECT_EQ(g_recorded.arguments[0], this->at(&dev));
    std::vector<int> first(g_recorded.merged.begin(), g_recorded.merged.begin() + 5);
    EXPECT_THAT(first, ElementsAre(4, 9, 8, 7, 6));
    g_recorded = {};
    MergedDevices five{5, {9, 8, 7, 6, 5}};
    result = this->net_->make_v_device(&dev, five);
    if (this->kVersion < 12) {
      this->expect_refused(result, "makeVDevice of 5 devices: version ");
    } else {
      EXPECT_THAT(g_recorded.merged, ElementsAre(5, 9, 8, 7, 6, 5, 0, 0, 0));
    }
  }
  this->net_->finalize(context);
}

TYPED_TEST(TableNetTest, NetAttributes_ReachThePluginFromV11) {
  void* context = this->context();
  NetAttributes attributes{{1, 2, 3, 4}, {5, 6, 7, 8}, 9, 10, 11};
  abi::ncclResult_t result = this->net_->set_net_attr(context, attributes);
  if (this->kVersion >= 11) {
    EXPECT_EQ(result, abi::ncclSuccess);
    EXPECT_EQ(g_recorded.arguments[0], this->at(context));
    EXPECT_EQ(g_recorded.attributes, attributes);
  } else {
    EXPECT_EQ(result, abi::ncclInternalError);
    EXPECT_EQ(g_recorded.calls, 0);
  }
  this->net_->finalize(context);
}

}  // namespace
}  // namespace gdr::tools

// The life of the built library in a process, over the software HCA: reload beside traffic,
// finalize in any order, several communicators in several threads.
#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tests/softhca/loaded_table.h"
#include "tests/softhca/net_pair.h"

namespace gdr {
namespace {

// A communicator, and a connection of it.
template <class Table>
struct Connected {
  explicit Connected(const Table& table, int traffic_class = abi::kTrafficClassUndefined,
                     uint64_t id = 0x1234)
      : communicator(table, traffic_class, id), pair(table, communicator.context()) {}

  NetCommunicator<Table> communicator;
  NetPair<Table> pair;
};

// Exchanges messages on a connection in a thread of its own, as long as it lives.
template <class Table>
class Traffic {
 public:
  explicit Traffic(NetPair<Table>* pair)
      : thread_([this, pair] {
          while (!stop_ && !::testing::Test::HasFatalFailure()) pair->exchange(++exchanged_);
        }) {
    EXPECT_TRUE(wait_until([this] { return exchanged_ > 3; }));
  }
  ~Traffic() {
    const int before = exchanged_;
    EXPECT_TRUE(wait_until([&] { return exchanged_ > before + 3; })) << "it goes on";
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> exchanged_{0};
  std::thread thread_;
};

template <class Version>
class EveryLoadedTable : public ::testing::Test {};

TYPED_TEST_SUITE(EveryLoadedTable, plugin::EveryTable, plugin::NameOfTable);

// That it is logged shows that the class reaches the connection, from init or, in v10, from
// connect.
TYPED_TEST(EveryLoadedTable, TrafficClassTooLarge_IsIgnoredAndLoggedWhereThereIsOne) {
  constexpr int kTooLarge = 300;
  LoadedTable<TypeParam::kNumber> table;
  void* context = nullptr;
  ASSERT_EQ(plugin::init(*table, PluginLog::logger(), &context, kTooLarge), abi::ncclSuccess);
  char handle[abi::kHandleMaxBytes] = {};
  void* listener = nullptr;
  ASSERT_EQ(plugin::listen(*table, context, 0, handle, &listener), abi::ncclSuccess);
  void* sender = nullptr;
  for (int call = 0; call < 3; ++call) {
    EXPECT_EQ(plugin::connect(*table, context, 0, handle, &sender, kTooLarge), abi::ncclSuccess);
  }
  EXPECT_EQ(sender, nullptr) << "nobody has accepted";
  EXPECT_EQ(PluginLog::warnings("traffic class 300").size(), TypeParam::kNumber < 10 ? 0u : 1u)
      << PluginLog::text();
  EXPECT_EQ(table->closeListen(listener), abi::ncclSuccess);
}

// As NCCL 2.28.3 does where a communicator shares the resources of one that was destroyed before.
TYPED_TEST(EveryLoadedTable, ContextFinalizedBesideAnother_IsStillUsable) {
  if constexpr (TypeParam::kNumber >= 11) {
    LoadedTable<TypeParam::kNumber> table;
    void *parent = nullptr, *child = nullptr;
    ASSERT_EQ(plugin::init(*table, PluginLog::logger(), &parent), abi::ncclSuccess);
    ASSERT_EQ(plugin::init(*table, PluginLog::logger(), &child), abi::ncclSuccess);
    ASSERT_EQ(table->finalize(parent), abi::ncclSuccess);
    NetPair pair(*table, parent);
    ASSERT_NO_FATAL_FAILURE(pair.connect());
    ASSERT_NO_FATAL_FAILURE(pair.exchange(1));
    pair.close();
    EXPECT_EQ(table->finalize(child), abi::ncclSuccess);
    EXPECT_EQ(table->finalize(child), abi::ncclInvalidArgument);
  }
}

TYPED_TEST(EveryLoadedTable, Reload_ConnectionsOfTheFirstLoadKeepMoving) {
  std::optional<LoadedTable<TypeParam::kNumber>> table(std::in_place);
  Connected<typename TypeParam::Type> first(**table);
  ASSERT_NO_FATAL_FAILURE(first.pair.connect());
  const Traffic<typename TypeParam::Type> traffic(&first.pair);
  for (int round = 0; round < 3; ++round) {
    table.reset();
    table.emplace();
    Connected<typename TypeParam::Type> later(**table);
    ASSERT_NO_FATAL_FAILURE(later.pair.connect());
    ASSERT_NO_FATAL_FAILURE(later.pair.exchange(round));
  }
}

// NCCL closes connections before finalize; an aborted communicator may not.
TYPED_TEST(EveryLoadedTable, FinalizedBeforeItsConnections_ConnectionsGoOn) {
  LoadedTable<TypeParam::kNumber> table;
  std::optional<NetCommunicator<typename TypeParam::Type>> communicator(std::in_place, *table);
  NetPair<typename TypeParam::Type> pair(*table, communicator->context());
  ASSERT_NO_FATAL_FAILURE(pair.connect());
  communicator.reset();
  ASSERT_NO_FATAL_FAILURE(pair.exchange(1));
}

// The tables share the code that fills them. NCCL's own back ends find a device by its name, which
// is that of the verbs device.
TEST(Properties, OfTheNewestTable_AreThoseOfTheDevice) {
  LoadedTable<12> table;
  NetCommunicator<abi::ncclNet_v12_t> communicator(*table);
  for (int i = 0; i < 2; ++i) {
    abi::ncclNetProperties_v12_t props;
    ASSERT_EQ(table->getProperties(i, &props), abi::ncclSuccess);
    EXPECT_EQ(props.name, "softhca" + std::to_string(i));
    EXPECT_EQ(props.speed, 400000);
    EXPECT_EQ(props.port, 1);
    EXPECT_EQ(props.maxRecvs, abi::kMaxRecvs);
    EXPECT_EQ(props.ptrSupport & abi::kPtrHost, abi::kPtrHost);
    EXPECT_EQ(props.forceFlush, 0);
    EXPECT_EQ(props.vProps.ndevs, 1);
    EXPECT_EQ(props.maxP2pBytes, size_t{27} << 30);
    EXPECT_EQ(props.maxCollBytes, abi::kAssumedCollBytes);
    EXPECT_EQ(props.netDeviceType, abi::kDeviceHost);
    EXPECT_EQ(props.netDeviceVersion, abi::kNetDeviceInvalidVersion);
    EXPECT_EQ(props.regIsGlobal, 0);
    EXPECT_EQ(props.vProps.devs[0], i);
    EXPECT_EQ(props.maxMultiRequestSize, 1);
    EXPECT_EQ(props.railId, i);
    EXPECT_EQ(props.planeId, abi::kNetIdUndefined);
  }
  abi::ncclNetProperties_v12_t props;
  for (int device : {-1, 2}) {
    EXPECT_EQ(table->getProperties(device, &props), abi::ncclInvalidArgument) << device;
  }
}

// The whole life of a communicator in the thread of one rank.
template <int kVersion>
void live(int number, std::atomic<int>* finished) {
  LoadedTable<kVersion> table;
  for (int round = 0; round < 3; ++round) {
    Connected<typename plugin::TableOf<kVersion>::Type> rank(
        *table, number % 2 == 0 ? 8 * number : abi::kTrafficClassUndefined, 0x100u + number);
    ASSERT_NO_FATAL_FAILURE(rank.pair.connect());
    for (int i = 0; i < 20; ++i) ASSERT_NO_FATAL_FAILURE(rank.pair.exchange(number + i));
  }
  ++*finished;
}

// As two copies of NCCL in one process use them: each has the newest table that it knows.
TEST(Communicators, OfDifferentTablesAtOnce_AllConnectAndClose) {
  std::atomic<int> finished{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back(live<8>, i, &finished);
    threads.emplace_back(live<12>, 2 + i, &finished);
    threads.emplace_back(live<10>, 4 + i, &finished);
    threads.emplace_back(live<6>, 6 + i, &finished);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(finished, 8);
}

// The registrations of a comm run in the service thread, beside its data path.
TEST(Communicators, RegistrationBesideTraffic_GoesOn) {
  LoadedTable<12> table;
  Connected<abi::ncclNet_v12_t> connected(*table);
  ASSERT_NO_FATAL_FAILURE(connected.pair.connect());
  const Traffic<abi::ncclNet_v12_t> traffic(&connected.pair);
  std::vector<char> buffer(1 << 16);
  for (int i = 0; i < 200; ++i) {
    void* memory = nullptr;
    ASSERT_EQ(
        table->regMr(connected.pair.sender(), buffer.data(), buffer.size(), abi::kPtrHost, &memory),
        abi::ncclSuccess);
    ASSERT_EQ(table->deregMr(connected.pair.sender(), memory), abi::ncclSuccess);
  }
}

}  // namespace
}  // namespace gdr

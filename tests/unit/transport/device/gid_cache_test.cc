#include "transport/device/gid_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/verbs/fake_verbs.h"
#include "tests/unit/transport/device/gid_text.h"
#include "transport/device/hca.h"

namespace gdr::transport {
namespace {

using fake_verbs::HcaConfig;

fake_verbs::Gid roce(const char* address, uint32_t type = IBV_GID_TYPE_ROCE_V2) {
  return {gid(address), type};
}

struct GidCacheTest : testing::Test {
  fake_verbs::FakeVerbs verbs;
  std::shared_ptr<HcaContext> hca;

  void open(HcaConfig config) {
    hca = HcaContext::open(verbs.api(), verbs.add_hca(config)).value();
  }
  std::vector<fake_verbs::Gid>& table(int port = 1) { return verbs.port("fake_0", port).gids; }
  Result<GidEntry> resolve(const GidPreference& preference = {}, int port = 1) {
    PortState state = query_port_state(hca->api(), hca->context(), port).value();
    return hca->gids().resolve(port, state, preference);
  }
};

TEST_F(GidCacheTest, ManyConnections_ReadTheTableOnceAndOneEntryEach) {
  open(HcaConfig::roce("fake_0", 7));
  table().resize(256);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(to_string(resolve().value().gid), "::ffff:10.0.0.7");
  EXPECT_EQ(verbs.gid_queries(), 256 + 19);
}

TEST_F(GidCacheTest, Events_ThatMayChangeGids_MakeItReadAgain) {
  open(HcaConfig::roce("fake_0", 7));
  table()[0].type = IBV_GID_TYPE_ROCE_V1;
  EXPECT_EQ(resolve().value().index, 0);
  table().push_back(roce("::ffff:10.0.0.7"));
  hca->on_event(IBV_EVENT_COMM_EST);
  EXPECT_EQ(resolve().value().index, 0) << "no event: the known entry is still there";
  hca->on_event(IBV_EVENT_GID_CHANGE);
  EXPECT_EQ(resolve().value().index, 1);
  for (ibv_event_type type : {IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR, IBV_EVENT_LID_CHANGE,
                              IBV_EVENT_SM_CHANGE, IBV_EVENT_DEVICE_FATAL}) {
    hca->on_event(type);
    const int before = verbs.gid_queries();
    (void)resolve();
    EXPECT_EQ(verbs.gid_queries(), before + 2) << type;
  }
}

TEST_F(GidCacheTest, EntryMovesWithoutAnEvent_IsFoundAtItsNewIndex) {
  open(HcaConfig::roce("fake_0", 7));
  const GidEntry before = resolve().value();
  table().insert(table().begin(), fake_verbs::Gid{});
  const GidEntry after = resolve().value();
  EXPECT_EQ(after.gid, before.gid);
  EXPECT_EQ(after.index, before.index + 1);
}

TEST_F(GidCacheTest, TwoEntriesOfOneGid_FindKeepsTheFormerOne) {
  open(HcaConfig::roce("fake_0", 7));
  table() = {roce("fe80::7"), roce("fe80::7"), roce("fd00::7")};
  const auto found = [this](const GidEntry& former) {
    return hca->gids().find(1, query_port_state(hca->api(), hca->context(), 1).value(), former);
  };
  for (int index : {0, 1, 2}) EXPECT_EQ(found(resolve({.forced_index = index}).value()), index);
  const GidEntry second = resolve({.forced_index = 1}).value();
  table().erase(table().begin());
  EXPECT_EQ(found(second), 0) << "the only entry of the GID";
  table().erase(table().begin());
  EXPECT_EQ(found(second), std::nullopt);
}

TEST_F(GidCacheTest, EntryChangesWithoutAnEvent_IsNeverUsed) {
  open(HcaConfig::roce("fake_0", 7));
  (void)resolve();
  table()[0] = roce("::ffff:10.9.9.9");
  EXPECT_EQ(to_string(resolve().value().gid), "::ffff:10.9.9.9");
  table()[0].type = IBV_GID_TYPE_ROCE_V1;
  EXPECT_EQ(resolve().value().type, GidType::kRoceV1);
  table().clear();
  EXPECT_FALSE(resolve());
}

TEST_F(GidCacheTest, WhatSuitsAppearsWithoutAnEvent_IsFound) {
  open(HcaConfig::roce("fake_0", 7));
  EXPECT_FALSE(resolve({.forced_index = 3}));
  table().resize(4);
  table()[3] = roce("fd00::3");
  EXPECT_EQ(to_string(resolve({.forced_index = 3}).value().gid), "fd00::3");
}

TEST_F(GidCacheTest, NoGid_NamesThePort) {
  open(HcaConfig::roce("fake_0", 7));
  table().clear();
  Result<GidEntry> none = resolve();
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().text.find("fake_0:1: the port has no GID"), std::string::npos);
}

TEST_F(GidCacheTest, TwoPorts_EachHasItsOwnTable) {
  auto config = HcaConfig::roce("fake_0", 7);
  config.ports.push_back(HcaConfig::infiniband("", 9).ports[0]);
  config.ports.push_back(HcaConfig::roce("", 8).ports[0]);
  config.ports[2].gids.resize(5);
  open(config);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(to_string(resolve({}, 1).value().gid), "::ffff:10.0.0.7");
    EXPECT_EQ(to_string(resolve({}, 2).value().gid), "fe80::9");
    EXPECT_EQ(to_string(resolve({}, 3).value().gid), "::ffff:10.0.0.8");
  }
}

TEST_F(GidCacheTest, InfiniBand_RoutableIndexCarriesFlid_IsChosen) {
  open(HcaConfig::infiniband("fake_0", 7));
  table().push_back({gid("fec0:0:1234:5::7")});
  table().push_back({gid("fec0:0:4321:5::7")});
  EXPECT_EQ(resolve().value().index, 1) << "the default";
  EXPECT_EQ(flid_of(resolve().value().gid), 0x1234);
  EXPECT_EQ(resolve({.routable_index = 2}).value().index, 2);
  EXPECT_EQ(resolve({.routable_index = 0}).value().index, 0);
}

TEST_F(GidCacheTest, InfiniBand_RoutableIndexWithoutFlidOrBeyondTheTable_IsZero) {
  open(HcaConfig::infiniband("fake_0", 7));
  table().push_back({gid("fec0::5:0:0:0:7")});
  for (int index : {1, 2, 255}) {
    EXPECT_EQ(resolve({.routable_index = index}).value().index, 0) << index;
  }
  EXPECT_EQ(resolve({.forced_index = 1}).value().index, 0) << "which is of RoCE";
}

TEST_F(GidCacheTest, EventsWhileThreadsResolve_EveryOneFindsTheGid) {
  open(HcaConfig::roce("fake_0", 7));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) EXPECT_EQ(resolve().value().index, 0);
    });
  }
  for (int i = 0; i < 200; ++i) hca->on_event(IBV_EVENT_GID_CHANGE);
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(verbs.gid_queries(), 600 + 201);
}

}  // namespace
}  // namespace gdr::transport

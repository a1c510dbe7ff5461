#include "transport/device/gid_selection.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/fakes/verbs/fake_verbs.h"
#include "transport/device/hca.h"

namespace gdr::transport {
namespace {

using fake_verbs::HcaConfig;
using ::testing::HasSubstr;

Gid gid(const char* text) {
  Gid value{};
  EXPECT_EQ(inet_pton(AF_INET6, text, value.data()), 1) << text;
  return value;
}

constexpr GidType kV1 = GidType::kRoceV1;
constexpr GidType kV2 = GidType::kRoceV2;

TEST(Cidr, Contains_IsWhatSharesFamilyAndPrefix) {
  const struct {
    const char* cidr;
    const char* gid;
    bool contained;
  } cases[] = {
      {"10.1.128.9/17", "::ffff:10.1.128.0", true},
      {"10.1.128.9/17", "::ffff:10.1.255.255", true},
      {"10.1.128.9/17", "::ffff:10.1.127.255", false},
      {"10.1.128.9/17", "::ffff:11.1.128.0", false},
      {"fd00:1:2::/47", "fd00:1:3::1", true},
      {"fd00:1:2::/47", "fd00:1:4::1", false},
      {"0.0.0.0/0", "::ffff:1.2.3.4", true},
      {"0.0.0.0/0", "fd00::1", false},
      {"::/0", "fd00::1", true},
      {"::/0", "::ffff:1.2.3.4", false},
      {"1.2.3.4/32", "::ffff:1.2.3.4", true},
      {"1.2.3.4/32", "::ffff:1.2.3.5", false},
      {"fd00::1/128", "fd00::1", true},
      {"fd00::1/128", "fd00::", false},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(Cidr::parse(one.cidr)->contains(gid(one.gid)), one.contained)
        << one.cidr << " " << one.gid;
  }
  EXPECT_EQ(Cidr::parse("fd00:1::/48")->to_string(), "fd00:1::/48");
}

TEST(Cidr, Parse_BadText_IsAnError) {
  for (const char* text : {"", "/", "10.0.0.0", "10.0.0/8", "/8", "fd00::g/8", "10.0.0.0/",
                           "10.0.0.0/33", "10.0.0.0/2147483647", "10.0.0.0/-1", "10.0.0.0/8x",
                           "10.0.0.0/ 8", "fd00::/129", "10.0.0.0/8/8", "10.0.0.0/99999999999"}) {
    const Result<Cidr> range = Cidr::parse(text);
    ASSERT_FALSE(range) << text;
    EXPECT_THAT(range.error().text, HasSubstr("'" + std::string(text) + "' is not a range"));
  }
}

// As the kernel fills it for an interface with one IPv4 and one IPv6 address.
std::vector<GidEntry> usual_table() {
  return {{0, gid("fe80::1:2:3:4"), kV1},
          {1, gid("fe80::1:2:3:4"), kV2},
          {2, gid("::ffff:10.0.0.1"), kV1},
          {3, gid("::ffff:10.0.0.1"), kV2},
          {4, gid("fd00::1"), kV1},
          {5, gid("fd00::1"), kV2},
          {6, gid("::"), kV2},
          {7, gid("fe80::"), kV2}};
}

int chosen(const std::vector<GidEntry>& table, const GidPreference& preference) {
  Result<GidEntry> entry = select_gid(table, preference);
  return entry ? entry->index : -1;
}

TEST(GidSelection, FamilyVersionRangeAndIndex_DecideWhichEntryIsChosen) {
  const std::vector<GidEntry> link_local = {{0, gid("fe80::1"), kV1}, {1, gid("fe80::1"), kV2}};
  const std::vector<GidEntry> ib_type = {{0, gid("::ffff:1.1.1.1"), GidType::kIb},
                                         {1, gid("::ffff:1.1.1.1"), kV2}};
  const std::vector<GidEntry> two_ranges = {{0, gid("::ffff:10.0.0.1"), kV2},
                                            {1, gid("::ffff:10.1.0.1"), kV2}};
  const std::vector<GidEntry> ipv4_of_v1 = {
      {0, gid("fe80::1"), kV1}, {1, gid("fe80::1"), kV2}, {2, gid("::ffff:10.0.0.1"), kV1}};
  const struct {
    const char* name;
    std::vector<GidEntry> table;
    GidPreference preference;
    int index;
  } cases[] = {
      {"IPv4 over RoCE v2 by default", usual_table(), {}, 3},
      {"version 1", usual_table(), {.roce_version = 1}, 2},
      {"the global address of IPv6", usual_table(), {.family = AF_INET6}, 5},
      {"link-local where there is no other", link_local, {.family = AF_INET6}, 1},
      {"type IB counts as version 1", ib_type, {}, 1},
      {"type IB counts as version 1", ib_type, {.roce_version = 1}, 0},
      {"the first of two addresses", two_ranges, {}, 0},
      {"the one in the range", two_ranges, {.range = *Cidr::parse("10.1.0.0/16")}, 1},
      {"the family before the version, as NCCL", ipv4_of_v1, {}, 2},
      {"a forced index overrides all",
       usual_table(),
       {.forced_index = 0, .range = *Cidr::parse("1.0.0.0/8")},
       0},
  };
  for (const auto& one : cases) EXPECT_EQ(chosen(one.table, one.preference), one.index) << one.name;
}

TEST(GidSelection, Range_NoGidInIt_IsAnErrorThatListsTheTable) {
  Result<GidEntry> entry = select_gid(usual_table(), {.range = *Cidr::parse("192.168.0.0/16")});
  ASSERT_FALSE(entry.has_value());
  EXPECT_THAT(entry.error().text, HasSubstr("NCCL_IB_ADDR_RANGE 192.168.0.0/16"));
  EXPECT_THAT(entry.error().text, HasSubstr("index 3 ::ffff:10.0.0.1 (RoCE v2)"));
  EXPECT_THAT(entry.error().text, HasSubstr("NCCL_IB_GID_INDEX"));
}

TEST(GidSelection, EqualEntries_AnyOrder_LowestIndexWins) {
  std::vector<GidEntry> table = {{9, gid("::ffff:10.0.0.3"), kV2},
                                 {2, gid("::ffff:10.0.0.2"), kV2},
                                 {5, gid("::ffff:10.0.0.1"), kV2}};
  std::mt19937 random(3);
  for (int i = 0; i < 20; ++i) {
    std::shuffle(table.begin(), table.end(), random);
    EXPECT_EQ(chosen(table, {}), 2);
  }
}

TEST(GidSelection, ForcedIndex_NullOrAbsent_IsAnError) {
  for (int index : {6, 7, 8, 200}) {
    Result<GidEntry> entry = select_gid(usual_table(), {.forced_index = index});
    ASSERT_FALSE(entry.has_value()) << index;
    EXPECT_THAT(entry.error().text, HasSubstr("NCCL_IB_GID_INDEX is " + std::to_string(index)));
    EXPECT_THAT(entry.error().text, HasSubstr("index 5 fd00::1"));
    EXPECT_THAT(entry.error().text, ::testing::Not(HasSubstr("index 6")));
  }
}

TEST(GidSelection, NoGid_IsAnError) {
  EXPECT_FALSE(select_gid({}, {}).has_value());
  EXPECT_FALSE(select_gid({{0, gid("::"), kV2}, {1, gid("fe80::"), kV2}}, {}).has_value());
  EXPECT_THAT(select_gid({}, {.forced_index = 0}).error().text, HasSubstr("no GID at all"));
}

struct ResolveGidTest : testing::Test {
  fake_verbs::FakeVerbs verbs;
  Device device;

  void open(HcaConfig config) {
    device.hca = HcaContext::open(verbs.api(), verbs.add_hca(config)).value();
    device.state = query_port_state(device.hca->api(), device.hca->context(), 1).value();
  }
  std::vector<fake_verbs::Gid>& table() { return verbs.port("fake_0", 1).gids; }
};

TEST_F(ResolveGidTest, TableChanges_TheNextConnectionTakesWhatIsThere) {
  open(HcaConfig::roce("fake_0", 7));
  const GidEntry before = resolve_gid(device, {}).value();
  table().insert(table().begin(), fake_verbs::Gid{});
  const GidEntry after = resolve_gid(device, {}).value();
  EXPECT_EQ(after.gid, before.gid);
  EXPECT_EQ(after.index, before.index + 1);
  table()[1] = {gid("::ffff:10.9.9.9"), IBV_GID_TYPE_ROCE_V1};
  EXPECT_EQ(to_string(resolve_gid(device, {}).value().gid), "::ffff:10.9.9.9");
  EXPECT_EQ(resolve_gid(device, {}).value().type, kV1);
  table().clear();
  EXPECT_THAT(resolve_gid(device, {}).error().text, HasSubstr("fake_0:1: the port has no GID"));
}

TEST_F(ResolveGidTest, SeveralPorts_EachHasItsOwnGids) {
  auto config = HcaConfig::roce("fake_0", 7);
  config.ports.push_back(HcaConfig::roce("", 8).ports[0]);
  open(config);
  EXPECT_EQ(to_string(resolve_gid(device, {}).value().gid), "::ffff:10.0.0.7");
  device.port = 2;
  EXPECT_EQ(to_string(resolve_gid(device, {}).value().gid), "::ffff:10.0.0.8");
}

TEST_F(ResolveGidTest, TwoEntriesOfOneGid_FindKeepsTheFormerOne) {
  open(HcaConfig::roce("fake_0", 7));
  const fake_verbs::Gid one{gid("fe80::7"), IBV_GID_TYPE_ROCE_V2};
  table() = {one, one, {gid("fd00::7"), IBV_GID_TYPE_ROCE_V2}};
  const auto former = [&](int index) { return *resolve_gid(device, {.forced_index = index}); };
  for (int index : {0, 1, 2}) EXPECT_EQ(find_gid(device, former(index)), index);
  const GidEntry second = former(1);
  table().erase(table().begin());
  EXPECT_EQ(find_gid(device, second), 0) << "the only entry of the GID";
  table().erase(table().begin());
  EXPECT_EQ(find_gid(device, second), std::nullopt);
}

TEST_F(ResolveGidTest, InfiniBand_RoutableIndexCarriesFlid_IsChosen) {
  open(HcaConfig::infiniband("fake_0", 7));
  table().push_back({gid("fec0:0:1234:5::7")});
  table().push_back({gid("fec0:0:4321:5::7")});
  EXPECT_EQ(resolve_gid(device, {})->index, 1) << "the default";
  EXPECT_EQ(flid_of(resolve_gid(device, {})->gid), 0x1234);
  EXPECT_EQ(resolve_gid(device, {.routable_index = 2})->index, 2);
  EXPECT_EQ(resolve_gid(device, {.routable_index = 0})->index, 0);
}

TEST_F(ResolveGidTest, InfiniBand_RoutableIndexWithoutFlidOrBeyondTheTable_IsZero) {
  open(HcaConfig::infiniband("fake_0", 7));
  table().push_back({gid("fec0::5:0:0:0:7")});
  for (int index : {1, 2, 255}) {
    EXPECT_EQ(resolve_gid(device, {.routable_index = index})->index, 0) << index;
  }
  EXPECT_EQ(resolve_gid(device, {.forced_index = 1})->index, 0) << "which is of RoCE";
}

}  // namespace
}  // namespace gdr::transport

#include "transport/device/hca_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace gdr::transport {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

HcaFilter filter(const char* text) { return HcaFilter::parse(text).value(); }

TEST(HcaFilter, Unset_AcceptsEverything) { EXPECT_TRUE(HcaFilter().accepts("mlx5_0", 1)); }

TEST(HcaFilter, PrefixesWholeNamesExclusionsAndPorts_DecideWhatIsAccepted) {
  const struct {
    const char* filter;
    const char* name;
    int port;
    bool accepted;
  } cases[] = {
      {"", "mlx5_0", 2, true},
      {"  ", "rxe0", 1, true},
      {"mlx5_1", "mlx5_1", 1, true},
      {"mlx5_1", "mlx5_10", 2, true},  // a prefix
      {"mlx5_1", "mlx5_2", 1, false},
      {"mlx5_10", "mlx5_1", 1, false},
      {"=mlx5_1", "mlx5_1", 1, true},
      {"=mlx5_1", "mlx5_10", 1, false},
      {"^mlx5_1", "mlx5_1", 1, false},
      {"^mlx5_1", "mlx5_12", 1, false},
      {"^mlx5_1", "mlx5_0", 1, true},
      {"^=mlx5_1,mlx5_2", "mlx5_2", 1, false},
      {"^=mlx5_1,mlx5_2", "mlx5_12", 1, true},
      {"mlx5_0:1,mlx5_1:2,mlx5_2", "mlx5_0", 1, true},
      {"mlx5_0:1,mlx5_1:2,mlx5_2", "mlx5_0", 2, false},
      {"mlx5_0:1,mlx5_1:2,mlx5_2", "mlx5_1", 1, false},
      {"mlx5_0:1,mlx5_1:2,mlx5_2", "mlx5_1", 2, true},
      {"mlx5_0:1,mlx5_1:2,mlx5_2", "mlx5_2", 7, true},
      {"^mlx5_0:1", "mlx5_0", 2, true},
      {"^mlx5_0:1", "mlx5_0", 1, false},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(filter(one.filter).accepts(one.name, one.port), one.accepted)
        << one.filter << " " << one.name << ":" << one.port;
  }
}

TEST(HcaFilter, RailAndPlane_AreThoseOfTheEntryThatMatches) {
  HcaFilter rails = filter("=a:1:3:4,b::5,c");
  ASSERT_NE(rails.entry_for("a", 1), nullptr);
  EXPECT_EQ(rails.entry_for("a", 1)->rail, 3);
  EXPECT_EQ(rails.entry_for("a", 1)->plane, 4);
  EXPECT_EQ(rails.entry_for("b", 2)->port, -1);
  EXPECT_EQ(rails.entry_for("b", 2)->rail, 5);
  EXPECT_EQ(rails.entry_for("b", 2)->plane, -1);
  EXPECT_EQ(rails.entry_for("c", 1)->rail, -1);
  EXPECT_EQ(rails.entry_for("d", 1), nullptr);
}

TEST(HcaFilter, RailOfAnExclusion_IsNotTaken) {
  EXPECT_EQ(filter("^a:1:3").entry_for("a", 1), nullptr);
  EXPECT_EQ(filter("^a:1:3").entry_for("b", 1), nullptr);
}

TEST(HcaFilter, EmptyEntries_AreIgnoredWithANote) {
  HcaFilter list = filter("a,,b,:2");
  EXPECT_TRUE(list.accepts("a", 1));
  EXPECT_TRUE(list.accepts("b", 1));
  EXPECT_FALSE(list.accepts("c", 2));
  ASSERT_EQ(list.notes().size(), 1u);
  EXPECT_EQ(list.notes()[0].kind, FindingKind::kListEntry);
  EXPECT_EQ(list.notes()[0].text, "entries without a name are ignored");
  EXPECT_TRUE(filter(",").accepts("anything", 1));
  EXPECT_THAT(filter("a,b").notes(), IsEmpty());
}

TEST(HcaFilter, BlanksAroundAnEntry_AreIgnoredWithANote) {
  EXPECT_TRUE(filter("a, b").accepts("b", 1));
  const HcaFilter list = filter("a, b");
  ASSERT_EQ(list.notes().size(), 1u);
  EXPECT_EQ(list.notes()[0].kind, FindingKind::kListBlanks);
  EXPECT_THAT(list.notes()[0].text, HasSubstr("blanks around 'b'"));
}

TEST(HcaFilter, MoreThan32Entries_RestIsIgnoredWithANote) {
  std::string text = "=d0";
  for (int i = 1; i < 40; ++i) text += ",d" + std::to_string(i);
  HcaFilter list = HcaFilter::parse(text).value();
  EXPECT_TRUE(list.accepts("d31", 1));
  EXPECT_FALSE(list.accepts("d32", 1));
  ASSERT_EQ(list.notes().size(), 1u);
  EXPECT_THAT(list.notes()[0].text, HasSubstr("first 32"));
}

TEST(HcaFilter, BadText_NamesTheFault) {
  const std::pair<const char*, const char*> cases[] = {{"=^a", "'^' before '='"},
                                                       {"^^a", "at its start"},
                                                       {"==a", "at its start"},
                                                       {"a,^b", "at its start"},
                                                       {"a,=b", "at its start"},
                                                       {"^", "has no names"},
                                                       {"^=", "has no names"},
                                                       {"^,,", "has no names"},
                                                       {"a:x", "port 'x'"},
                                                       {"a:0", "from 1 to 255"},
                                                       {"a:256", "from 1 to 255"},
                                                       {"a:-1", "from 1 to 255"},
                                                       {"a:1x", "port '1x'"},
                                                       {"a:1:x", "rail 'x'"},
                                                       {"a:1:2:-3", "plane '-3'"},
                                                       {"a:1:2:3:4", "more fields"},
                                                       {"a:1:40000", "from 0 to 32767"},
                                                       {"a b", "blank"},
                                                       {"a:99999999999999999999", "from 1 to 255"}};
  for (auto [text, expected] : cases) {
    Result<HcaFilter> result = HcaFilter::parse(text);
    ASSERT_FALSE(result.has_value()) << text;
    EXPECT_THAT(result.error().text, HasSubstr(expected)) << text;
  }
}

TEST(HcaFilter, ToString_Parsed_IsParsedBackToTheSame) {
  for (const char* text : {"", "a", "^=a:1,b", "=a:1:2:3", "a::2"}) {
    EXPECT_EQ(filter(text).to_string(), text);
  }
}

TEST(HcaFilter, RandomText_IsRejectedOrRoundTrips) {
  std::mt19937 random(13);
  const std::string alphabet = "ab_01^=,:\t \x01";
  for (int i = 0; i < 20000; ++i) {
    std::string text(random() % 14, ' ');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    Result<HcaFilter> result = HcaFilter::parse(text);
    if (!result) {
      EXPECT_FALSE(result.error().text.empty());
      continue;
    }
    HcaFilter again = HcaFilter::parse(result->to_string()).value();
    for (const char* name : {"a", "b", "ab", "a_0", ""}) {
      for (int port : {1, 10}) EXPECT_EQ(again.accepts(name, port), result->accepts(name, port));
    }
  }
}

TEST(HcaFilter, EntriesWithoutPort_AreThoseThatMatchNone) {
  const std::vector<std::pair<std::string, int>> ports = {{"mlx5_0", 1}, {"mlx5_10", 1}};
  auto unmatched = [&](const char* text) {
    return HcaFilter::parse(text).value().entries_without_port(ports);
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(unmatched(""), Names{});
  EXPECT_EQ(unmatched("mlx5"), Names{});
  EXPECT_EQ(unmatched("mlx5_1,mlx5_9"), Names{"mlx5_9"});
  EXPECT_EQ(unmatched("=mlx5_1,mlx5_0:1"), Names{"mlx5_1"});
  EXPECT_EQ(unmatched("mlx5_0:2:5,mlx5_0:1"), Names{"mlx5_0:2:5"});
  EXPECT_EQ(unmatched("^=mlx5_2,mlx5_0"), Names{"mlx5_2"});
}

}  // namespace
}  // namespace gdr::transport

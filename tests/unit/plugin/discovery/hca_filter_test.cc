#include "plugin/discovery/hca_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace gdr::discovery {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

HcaFilter filter(const char* text) { return HcaFilter::parse(text).value(); }

TEST(HcaFilter, PrefixesWholeNamesExclusionsAndPorts_DecideWhatIsAccepted) {
  const struct {
    const char* filter;
    const char* name;
    int port;
    bool accepted;
  } cases[] = {
      {"", "mlx5_0", 2, true},
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
  EXPECT_EQ(filter("^a:1:3").entry_for("b", 1), nullptr) << "an exclusion";
}

TEST(HcaFilter, EmptyEntriesAndBlanksAroundOthers_AreIgnored) {
  const HcaFilter list = filter(" a,, b ,:2,");
  EXPECT_TRUE(list.accepts("a", 1));
  EXPECT_TRUE(list.accepts("b", 1));
  EXPECT_FALSE(list.accepts("c", 2));
  EXPECT_THAT(list.notes(), IsEmpty());
}

// As in NCCL: "$A,$B" of two empty variables.
TEST(HcaFilter, CommasWithoutNames_AcceptEveryPort) {
  for (const char* text : {",", ",,", " , ", ":1"})
    EXPECT_TRUE(filter(text).accepts("a", 1)) << text;
}

// As NCCL's transport, which keeps the good entries (parseStringList); but never more ports than
// are named. accepted: of a:1, b:1 and c:1.
TEST(HcaFilter, EntryThatCannotBeRead_NamesTheFaultAndAcceptsNoMore) {
  const struct {
    const char* text;
    const char* fault;
    const char* accepted;
  } cases[] = {{"=^a", "'^' before '='", ""},
               {"^^a", "'^a' (a name has no blanks or control characters, and '^' and '='", "bc"},
               {"==a", "'=a' (a name", ""},
               {"a,^b", "'^b' (a name", "a"},
               {"a,=b", "'=b' (a name", "a"},
               {"^a,^b", "'^b' (a name", "c"},
               {"^a c,b", "'a c' (a name", "c"},
               {"^=a,b:x", "'b:x' (behind", "c"},
               {"^", "the list has no names; no port is used", ""},
               {"^=", "has no names", ""},
               {"^,,", "has no names", ""},
               {" ", "has no names; no port is used", ""},
               {"a:x", "'a:x' (behind", ""},
               {"b,a:0", "'a:0' (behind the name stand :port, from 1 to 255,", "b"},
               {"a:256", "'a:256' (behind", ""},
               {"a:-1", "'a:-1' (behind", ""},
               {"a:1x", "'a:1x' (behind", ""},
               {"a:1:x", "'a:1:x' (behind", ""},
               {"a:1:2:-3", "'a:1:2:-3' (behind", ""},
               {"a:1:2:3:4,c", "'a:1:2:3:4' (behind", "c"},
               {"a:1:40000", "'a:1:40000' (behind", ""},
               {"a b,c", "'a b' (a name", "c"},
               {"a\nb", "'a?b' (a name", ""},
               {"a:99999999999999999999", "(behind", ""}};
  for (const auto& [text, fault, accepted] : cases) {
    const HcaFilter list = filter(text);
    std::string found;
    for (const char* name : {"a", "b", "c"}) found += list.accepts(name, 1) ? name : "";
    EXPECT_EQ(found, accepted) << text;
    ASSERT_FALSE(list.notes().empty()) << text;
    EXPECT_THAT(list.notes().back().text, HasSubstr(fault)) << text;
    EXPECT_EQ(list.notes().back().severity, found.empty() ? Severity::kError : Severity::kWarning);
  }
  EXPECT_THAT(filter("a:x,b:y,c").notes(), testing::SizeIs(1)) << "one for all";
}

TEST(HcaFilter, RandomText_RoundTrips) {
  std::mt19937 random(13);
  const std::string alphabet = "ab_01^=,:\t \x01";
  for (int i = 0; i < 20000; ++i) {
    std::string text(random() % 14, ' ');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    const HcaFilter list = filter(text.c_str());
    const HcaFilter again = filter(list.to_string().c_str());
    for (const char* name : {"a", "b", "ab", "a_0", ""}) {
      for (int port : {1, 10})
        EXPECT_EQ(again.accepts(name, port), list.accepts(name, port)) << text;
    }
  }
}

TEST(HcaFilter, FindingsOnAMachine_AreEntriesWithoutAPortAndNamesThatMatchOtherHcas) {
  const HcaFilter::Ports ports = {
      {"mlx5_0", 1}, {"mlx5_1", 1}, {"mlx5_10", 1}, {"mlx5_11", 1}, {"rxe0", 1}};
  const struct {
    const char* list;
    const char* unmatched;
    const char* by_prefix;  // the HCAs, and by what
    const char* exact;
  } cases[] = {
      {"", "", "", ""},
      {"mlx5", "", "", ""},
      {"mlx5_0,mlx5_9,mlx5_8:1", "'mlx5_9', 'mlx5_8:1'", "", ""},
      {"=mlx5_1,mlx5_0:2:5", "'mlx5_0:2:5'", "", ""},
      {"^=mlx5_2,mlx5_0", "'mlx5_2'", "", ""},
      {"mlx5_0:1,mlx5_1:1", "", "accepts mlx5_10, mlx5_11 by 'mlx5_1':", "=mlx5_0:1,mlx5_1:1"},
      {"^mlx5_1", "", "excludes mlx5_10, mlx5_11 by 'mlx5_1':", "^=mlx5_1"},
      {"mlx5_1::3,mlx5_10", "", "accepts mlx5_11 by 'mlx5_1':", "=mlx5_1::3,mlx5_10"},
      {"mlx5_1,mlx5_1,mlx5_2", "'mlx5_2'",
       "accepts mlx5_10, mlx5_11 by 'mlx5_1':", "=mlx5_1,mlx5_1,mlx5_2"},
      {"mlx5_1,mlx5_1", "", "accepts mlx5_10, mlx5_11 by", "=mlx5_1,mlx5_1"},
      {"mlx5_1,mlx5", "", "", ""},
      {"mlx5_1:2", "'mlx5_1:2'", "", ""}};
  for (const auto& one : cases) {
    std::map<FindingKind, Finding> found;
    for (Finding& finding : filter(one.list).findings_on(ports)) found[finding.kind] = finding;
    EXPECT_EQ(found.contains(FindingKind::kHcaUnmatched), *one.unmatched != 0) << one.list;
    EXPECT_THAT(found[FindingKind::kHcaUnmatched].text, StartsWith(one.unmatched));
    EXPECT_EQ(found.contains(FindingKind::kHcaPrefix), *one.by_prefix != 0) << one.list;
    EXPECT_THAT(found[FindingKind::kHcaPrefix].text, HasSubstr(one.by_prefix));
    EXPECT_THAT(found[FindingKind::kHcaPrefix].fix, EndsWith(one.exact)) << one.list;
  }
}

}  // namespace
}  // namespace gdr::discovery

#include "topology/bdf.h"

#include <gtest/gtest.h>

#include <random>

namespace gdr::topology {
namespace {

TEST(Bdf, Parse_Address_GivesAllParts) {
  EXPECT_EQ(Bdf::parse("0000:3b:1f.7"), (Bdf{0, 0x3b, 0x1f, 7}));
  EXPECT_EQ(Bdf::parse("10000:e1:00.0"), (Bdf{0x10000, 0xe1, 0, 0}));
  EXPECT_EQ(Bdf::parse("fffffffe:e1:00.0"), (Bdf{0xfffffffe, 0xe1, 0, 0}));
  EXPECT_EQ(Bdf::parse("3B:00.1"), (Bdf{0, 0x3b, 0, 1})) << "without a domain";
}

TEST(Bdf, Parse_BadText_GivesNothing) {
  for (const char* text : {"",
                           ":",
                           ".",
                           ":.",
                           "::.",
                           "pci0000:00",
                           "virtio0",
                           "0000:3b:00",
                           "0000:3b:20.0",
                           "0000:3b:00.8",
                           "0000:3b:00.0 ",
                           " 0000:3b:00.0",
                           "000:3b:00.0",
                           "0000:b:00.0",
                           "0000:3b:0.0",
                           "0000:3b:00.00",
                           "100000000:3b:00.0",
                           "0000:3b:00.-1",
                           "-000:3b:00.0",
                           "0x00:3b:00.0",
                           "0000:+b:00.0",
                           "0000:3b.00:0",
                           "1:0000:3b:00.0",
                           "0000:3b:00.0.0"}) {
    EXPECT_FALSE(Bdf::parse(text).has_value()) << text;
  }
}

TEST(Bdf, ToString_AnyAddress_IsParsedBackEqual) {
  for (Bdf bdf : {Bdf{}, Bdf{0, 0xff, 31, 7}, Bdf{0x10000, 1, 2, 3}, Bdf{0xffffffff, 0, 0, 0}}) {
    EXPECT_EQ(Bdf::parse(bdf.to_string()), bdf) << bdf.to_string();
  }
  EXPECT_EQ((Bdf{0, 0x3b, 0, 1}).to_string(), "0000:3b:00.1");
}

TEST(Bdf, Order_ByAddress_IsTheBusOrder) {
  EXPECT_LT(*Bdf::parse("0000:ff:1f.7"), *Bdf::parse("0001:00:00.0"));
  EXPECT_LT(*Bdf::parse("0000:09:00.0"), *Bdf::parse("0000:0a:00.0"));
}

TEST(Bdf, Parse_RandomText_GivesNothingOrAnAddressThatRoundTrips) {
  std::mt19937 random(7);
  const std::string alphabet = "0123afAF:.x- ";
  for (int i = 0; i < 20000; ++i) {
    std::string text(random() % 16, '\0');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    if (auto bdf = Bdf::parse(text)) {
      EXPECT_EQ(Bdf::parse(bdf->to_string()), bdf) << text;
    }
  }
}

}  // namespace
}  // namespace gdr::topology

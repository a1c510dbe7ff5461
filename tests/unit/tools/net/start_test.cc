#include <gmock/gmock.h>

#include "tests/unit/tools/net/fake_net.h"
#include "tools/net/plugin_loader.h"

namespace gdr::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Has two devices and makes device 2 of both.
class MergingNet : public FakeNet {
 public:
  explicit MergingNet(bool merges) : merges_(merges) {}
  bool has(NetEntry) const override { return merges_; }
  abi::ncclResult_t devices(int* count) override {
    *count = 2;
    return abi::ncclSuccess;
  }
  abi::ncclResult_t make_v_device(int* made, const MergedDevices& merged) override {
    if (merged.count != 2 || merged.devices[0] != 1) return abi::ncclInvalidUsage;
    *made = 2;
    return abi::ncclSuccess;
  }

 private:
  bool merges_;
};

std::vector<int> parts_of(const char* text) {
  const Result<MergedDevices> named = parse_device(text);
  if (!named) return {};
  return {named->devices.begin(), named->devices.begin() + named->count};
}

TEST(NamedDevice, IndexOrSum_IsItsParts) {
  EXPECT_THAT(parts_of("3"), ElementsAre(3));
  EXPECT_THAT(parts_of("0+12+1"), ElementsAre(0, 12, 1));
  EXPECT_EQ(to_string(*parse_device("0+12+1")), "0+12+1");
  EXPECT_THAT(parts_of("0+1+2+3+4+5+6+7").size(), 8u);
}

TEST(NamedDevice, AnythingElse_IsRejected) {
  for (const char* bad : {"", "+", "1+", "+1", "a", "1,2", "-1", "1+-2", " 1", "1 ", "99999999999",
                          "0+1+2+3+4+5+6+7+8", "0+0", "0+1+0"}) {
    const Result<MergedDevices> named = parse_device(bad);
    ASSERT_FALSE(named) << bad;
    EXPECT_THAT(named.error().text, HasSubstr("is not a device")) << bad;
  }
}

TEST(NamedDevice, SeveralParts_AreMergedWhereTheyExistAndThePluginDoes) {
  MergingNet net(true), without(false);
  auto error = [](Net& of, const char* text) {
    return find_device(of, *parse_device(text)).error().text;
  };
  EXPECT_EQ(find_device(net, *parse_device("1")), 1);
  EXPECT_EQ(find_device(net, *parse_device("1+0")), 2);
  EXPECT_THAT(error(net, "0+1"), HasSubstr("--dev 0+1: makeVDevice: "));
  EXPECT_EQ(error(net, "0+2"), "--dev 0+2: the plugin has devices 0..1");
  EXPECT_THAT(error(without, "1+0"), HasSubstr("has no makeVDevice"));
}

}  // namespace
}  // namespace gdr::tools

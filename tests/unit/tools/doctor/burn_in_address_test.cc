#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include "tools/doctor/burn_in.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

TEST(BurnInPeer, Local_NeedsNoAddress) {
  EXPECT_TRUE(parse_burn_in_peer("local")->is_local);
  EXPECT_FALSE(parse_burn_in_peer("local")->is_loopback);
  EXPECT_EQ(parse_burn_in_peer("local")->rank, 0);
  EXPECT_TRUE(parse_burn_in_peer("loopback")->is_local);
  EXPECT_TRUE(parse_burn_in_peer("loopback")->is_loopback);
}

TEST(BurnInPeer, AddressWithPort_IsResolved) {
  const Result<BurnInPeer> own = parse_burn_in_peer("127.0.0.1:4000");
  ASSERT_TRUE(own.has_value());
  EXPECT_FALSE(own->is_local);
  EXPECT_EQ(own->rank, 0);
  EXPECT_EQ(own->port, 4000);
  EXPECT_EQ(own->address, "127.0.0.1");
}

// Each of 127.0.0.0/8 is the machine's own, and only the first is that of an interface.
TEST(BurnInPeer, LoopbackAddresses_AreOwn) {
  EXPECT_EQ(parse_burn_in_peer("127.0.1.1")->rank, 0);
  EXPECT_EQ(parse_burn_in_peer("127.255.255.254")->rank, 0);
}

TEST(BurnInPeer, AddressOfEachInterface_IsOwn) {
  ifaddrs* head = nullptr;
  ASSERT_EQ(getifaddrs(&head), 0);
  for (const ifaddrs* one = head; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    char name[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, name,
              sizeof name);
    EXPECT_EQ(parse_burn_in_peer(name)->rank, 0) << name;
  }
  freeifaddrs(head);
}

TEST(BurnInPeer, AddressOfNoInterface_IsTheOtherMachines) {
  // An address for documentation (RFC 5737), which no machine has.
  EXPECT_EQ(parse_burn_in_peer("192.0.2.1")->rank, 1);
}

TEST(BurnInPeer, UnusableTexts_AreErrors) {
  for (const char* wrong : {"127.0.0.1:", "127.0.0.1:0", "127.0.0.1:x", "127.0.0.1:65535",
                            "127.0.0.1:70000", "", "0.0.0.0", "::1", "fd00::1:4000"}) {
    const Result<BurnInPeer> peer = parse_burn_in_peer(wrong);
    ASSERT_FALSE(peer.has_value()) << wrong;
    EXPECT_EQ(peer.error().code, Code::kInvalidArgument);
    EXPECT_THAT(peer.error().text, HasSubstr(std::string("\"") + wrong + "\""));
  }
}

}  // namespace
}  // namespace gdr::tools::doctor

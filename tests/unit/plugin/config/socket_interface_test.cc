#include "plugin/config/socket_interface.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>

namespace gdr::config {
namespace {

using ::testing::HasSubstr;

Interface ipv4(const char* name, const char* text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  EXPECT_EQ(inet_pton(AF_INET, text, &address.sin_addr), 1);
  Interface entry{name, {}};
  std::memcpy(&entry.address, &address, sizeof(address));
  return entry;
}

Interface ipv6(const char* name, const char* text, uint32_t scope = 0) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_scope_id = scope;
  EXPECT_EQ(inet_pton(AF_INET6, text, &address.sin6_addr), 1);
  Interface entry{name, {}};
  std::memcpy(&entry.address, &address, sizeof(address));
  return entry;
}

// In the kernel's order: every IPv4 address, then every IPv6 address.
std::vector<Interface> usual() {
  return {ipv4("lo", "127.0.0.1"),    ipv4("docker0", "172.17.0.1"),
          ipv4("eth0", "192.0.2.2"),  ipv4("eth1", "198.51.100.2"),
          ipv6("lo", "::1"),          ipv6("eth0", "fe80::2", 2),
          ipv6("eth0", "2001:db8::2")};
}

InterfacePreference named(const char* text, int family = AF_UNSPEC) {
  return {InterfaceFilter::parse(text).value(), family};
}

std::string chosen(const std::vector<Interface>& interfaces,
                   const InterfacePreference& preference) {
  Result<Interface> entry = choose_interface(interfaces, preference);
  return entry ? to_string(*entry) : "";
}

TEST(SocketInterface, Default_IpoibThenTheFirstOrdinaryOne) {
  auto interfaces = usual();
  EXPECT_EQ(chosen(interfaces, {}), "eth0 192.0.2.2");
  interfaces.push_back(ipv4("ib0", "203.0.113.9"));
  EXPECT_EQ(chosen(interfaces, {}), "ib0 203.0.113.9");
}

TEST(SocketInterface, Default_DockerThenLoThenVirbrAreLastResorts) {
  std::vector<Interface> interfaces = {ipv4("virbr0", "192.168.122.1"), ipv4("lo", "127.0.0.1"),
                                       ipv4("docker0", "172.17.0.1")};
  EXPECT_EQ(chosen(interfaces, {}), "docker0 172.17.0.1");
  interfaces.pop_back();
  EXPECT_EQ(chosen(interfaces, {}), "lo 127.0.0.1");
  interfaces.pop_back();
  EXPECT_EQ(chosen(interfaces, {}), "virbr0 192.168.122.1");
}

TEST(SocketInterface, NamesAndFamily_DecideWhichIsTaken) {
  auto interfaces = usual();
  interfaces.push_back(ipv4("eth10", "203.0.113.9"));
  const struct {
    const char* names;
    int family;
    const char* taken;
  } cases[] = {
      {"eth1", AF_UNSPEC, "eth1 198.51.100.2"},
      {"=eth10", AF_UNSPEC, "eth10 203.0.113.9"},
      {"^docker,lo,eth0", AF_UNSPEC, "eth1 198.51.100.2"},
      {"^=docker0,lo,eth0,eth1", AF_UNSPEC, "eth10 203.0.113.9"},
      {"lo", AF_UNSPEC, "lo 127.0.0.1"},
      // NCCL takes the first interface that is not excluded, and that is often lo.
      {"^eth0", AF_UNSPEC, "lo 127.0.0.1"},
      // The kernel's order decides, not that of the list.
      {"eth1,eth0", AF_UNSPEC, "eth0 192.0.2.2"},
      // An address that is not link-local is preferred.
      {"", AF_INET6, "eth0 2001:db8::2"},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(chosen(interfaces, named(one.names, one.family)), one.taken) << one.names;
  }
}

TEST(SocketInterface, Family_OnlyLinkLocal_KeepsItsScope) {
  std::vector<Interface> interfaces = {ipv6("lo", "::1"), ipv6("eth0", "fe80::2", 70000)};
  Result<Interface> entry = choose_interface(interfaces, {});
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(to_string(*entry), "eth0 fe80::2%70000");
  sockaddr_in6 address{};
  std::memcpy(&address, &entry->address, sizeof(address));
  EXPECT_EQ(address.sin6_scope_id, 70000u);
}

TEST(SocketInterface, Ipv6Loopback_IsNeverTaken) {
  EXPECT_FALSE(choose_interface({ipv6("lo", "::1")}, {}).has_value());
}

TEST(SocketInterface, NameWithoutMatch_IsAnErrorThatListsInterfaces) {
  Result<Interface> entry = choose_interface(usual(), named("bond0"));
  ASSERT_FALSE(entry.has_value());
  EXPECT_THAT(entry.error().text, HasSubstr("NCCL_SOCKET_IFNAME \"bond0\" matches no interface"));
  EXPECT_THAT(entry.error().text, HasSubstr("eth0 192.0.2.2"));
  EXPECT_THAT(entry.error().text, HasSubstr("docker0 172.17.0.1"));
  Result<Interface> family = choose_interface(usual(), named("eth1", AF_INET6));
  ASSERT_FALSE(family.has_value());
  EXPECT_THAT(family.error().text, HasSubstr("with an IPv6 address"));
}

TEST(SocketInterface, NoInterface_IsAnError) {
  Result<Interface> entry = choose_interface({}, {});
  ASSERT_FALSE(entry.has_value());
  EXPECT_THAT(entry.error().text, HasSubstr("interfaces that are up: none. Fix: "));
}

TEST(SocketInterface, Parse_OneCharacter_IsRejectedAsNcclIgnoresIt) {
  EXPECT_FALSE(InterfaceFilter::parse("e").has_value());
  EXPECT_FALSE(InterfaceFilter::parse("").value().is_set());
}

// The rules of NCCL_IB_HCA, whose test has the cases.
TEST(SocketInterface, Parse_EntryThatCannotBeRead_DoesNotCount) {
  const InterfaceFilter list = InterfaceFilter::parse("^docker0,^lo").value();
  EXPECT_FALSE(list.accepts("lo"));
  EXPECT_THAT(list.notes().at(0).text, HasSubstr("'^lo' ("));
  for (const char* text : {"=^eth0", "eth0 eth1", "^=", "  "}) {
    const InterfaceFilter none = InterfaceFilter::parse(text).value();
    EXPECT_TRUE(none.is_set() && !none.accepts("eth0")) << text;
    EXPECT_EQ(none.notes().at(0).severity, Severity::kError) << text;
  }
}

TEST(SocketInterface, Parse_PortAfterName_IsIgnored) {
  InterfaceFilter filter = InterfaceFilter::parse("=eth0:1").value();
  EXPECT_TRUE(filter.accepts("eth0"));
  EXPECT_EQ(filter.to_string(), "=eth0");
}

TEST(SocketInterface, Enumerate_ThisMachine_HasNamesAndScopes) {
  Result<std::vector<Interface>> interfaces = enumerate_interfaces();
  ASSERT_TRUE(interfaces.has_value());
  for (const Interface& entry : *interfaces) {
    EXPECT_FALSE(entry.name.empty());
    if (to_string(entry).find(" fe80:") != std::string::npos) {
      EXPECT_THAT(to_string(entry), HasSubstr("%"));
    }
  }
}

}  // namespace
}  // namespace gdr::config

#include "transport/device/cidr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace gdr::transport {
namespace {

constexpr uint8_t kIpv4MappedPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool same_bits(const uint8_t* a, const uint8_t* b, int bits) {
  int bytes = bits / 8;
  if (std::memcmp(a, b, bytes) != 0) return false;
  int rest = bits % 8;
  if (rest == 0) return true;
  uint8_t mask = static_cast<uint8_t>(0xff << (8 - rest));
  return (a[bytes] & mask) == (b[bytes] & mask);
}

}  // namespace

bool is_ipv4_mapped(const Gid& gid) {
  return std::equal(std::begin(kIpv4MappedPrefix), std::end(kIpv4MappedPrefix), gid.begin());
}

Result<Cidr> Cidr::parse(std::string_view text) {
  size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    return fail(Code::kInvalidUsage, "the prefix length is missing, as in 10.0.0.0/8");
  }
  std::string address(text.substr(0, slash));
  std::string_view prefix = text.substr(slash + 1);
  Cidr cidr;
  cidr.family = address.find(':') == std::string::npos ? AF_INET : AF_INET6;
  const char* family_name = cidr.family == AF_INET ? "IPv4" : "IPv6";
  // A NUL inside would end the address early for inet_pton.
  if (address.find('\0') != std::string::npos ||
      inet_pton(cidr.family, address.c_str(), cidr.address.data()) != 1) {
    return fail(Code::kInvalidUsage, "'" + address + "' is not an " + family_name + " address");
  }
  int most = cidr.family == AF_INET ? 32 : 128;
  auto [end, error] =
      std::from_chars(prefix.data(), prefix.data() + prefix.size(), cidr.prefix_bits);
  if (error != std::errc() || end != prefix.data() + prefix.size() || cidr.prefix_bits < 0 ||
      cidr.prefix_bits > most) {
    return fail(Code::kInvalidUsage, "the prefix length '" + std::string(prefix) +
                                         "' is not a number from 0 to " + std::to_string(most));
  }
  return cidr;
}

bool Cidr::contains(const Gid& gid) const {
  if (is_ipv4_mapped(gid) != (family == AF_INET)) return false;
  const uint8_t* start = family == AF_INET ? gid.data() + 12 : gid.data();
  return same_bits(address.data(), start, prefix_bits);
}

std::string Cidr::to_string() const {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(family, address.data(), text, sizeof(text));
  return std::string(text) + "/" + std::to_string(prefix_bits);
}

}  // namespace gdr::transport

#include "transport/device/gid_selection.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <tuple>

#include "transport/device/hca.h"

namespace gdr::transport {
namespace {

constexpr Gid kIpv4Mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};  // ::ffff:0.0.0.0
constexpr int kIpv4At = 12;  // the byte where the IPv4 address begins

int roce_version_of(GidType type) { return type == GidType::kRoceV2 ? 2 : 1; }

std::string text_of(const GidEntry& entry) {
  return "index " + std::to_string(entry.index) + " " + to_string(entry.gid) + " (" +
         to_string(entry.type) + ")";
}

std::string text_of_all(const std::vector<GidEntry>& table) {
  std::string text;
  for (const GidEntry& entry : table) {
    if (is_null(entry.gid)) continue;
    text += (text.empty() ? "" : ", ") + text_of(entry);
  }
  return text.empty() ? "no GID at all" : text;
}

Result<GidEntry> forced(const std::vector<GidEntry>& table, int index) {
  for (const GidEntry& entry : table) {
    if (entry.index == index && !is_null(entry.gid)) return entry;
  }
  return fail(Code::kInvalidUsage, "NCCL_IB_GID_INDEX is " + std::to_string(index) +
                                       ", an unused entry of the GID table; used are " +
                                       text_of_all(table) +
                                       ". Fix: set NCCL_IB_GID_INDEX to one of these, or unset it");
}

// Smaller is better.
auto rank(const GidEntry& entry, const GidPreference& preference) {
  return std::tuple(family_of(entry.gid) != preference.family, is_link_local(entry.gid),
                    roce_version_of(entry.type) != preference.roce_version, entry.index);
}

Result<GidEntry> select_infiniband_gid(const std::vector<GidEntry>& table,
                                       const GidPreference& preference) {
  const GidEntry* first = nullptr;
  for (const GidEntry& entry : table) {
    if (entry.index == preference.routable_index && flid_of(entry.gid) != 0) return entry;
    if (entry.index == 0) first = &entry;
  }
  if (first != nullptr) return *first;
  return fail(Code::kSystem,
              "the port has no GID at index 0. Fix: start the fabric's subnet manager");
}

// The used entries of a port's table. Of RoCE they change with the addresses of its interface.
Result<std::vector<GidEntry>> read_table(const Device& device) {
  constexpr size_t kMost = 1024;  // of all ports of an HCA; mlx5 has room for 256 a port
  const HcaContext& hca = *device.hca;
  std::vector<ibv_gid_entry> found(kMost);
  const ssize_t count =
      hca.api().query_gid_table(hca.context(), found.data(), kMost, 0, sizeof(ibv_gid_entry));
  if (count < 0) {
    return fail_errno(Code::kSystem, "reading the GIDs of " + to_string(device) + " failed",
                      static_cast<int>(-count));
  }
  found.resize(static_cast<size_t>(count));
  std::vector<GidEntry> table;
  for (const ibv_gid_entry& one : found) {
    if (one.port_num != static_cast<uint32_t>(device.port)) continue;
    GidEntry& entry = table.emplace_back();
    entry.index = static_cast<int>(one.gid_index);
    entry.type = static_cast<GidType>(one.gid_type);
    std::memcpy(entry.gid.data(), one.gid.raw, entry.gid.size());
  }
  return table;
}

}  // namespace

Result<Cidr> Cidr::parse(std::string_view text) {
  Cidr cidr{.text = std::string(text)};
  const size_t slash = std::min(text.find('/'), text.size());
  const std::string address(text.substr(0, slash));
  const bool is_ipv6 = address.find(':') != std::string::npos;
  const int first = is_ipv6 ? 0 : kIpv4At;
  if (!is_ipv6) cidr.address = kIpv4Mapped;
  const std::string_view bits = text.substr(std::min(slash + 1, text.size()));
  const char* bits_end = bits.data() + bits.size();
  const auto [end, error] = std::from_chars(bits.data(), bits_end, cidr.prefix_bits);
  const int least = 8 * first;  // of the bits that count
  const bool is_possible = cidr.prefix_bits >= 0 && cidr.prefix_bits <= 128 - least;
  cidr.prefix_bits += is_possible ? least : 0;
  const int family = is_ipv6 ? AF_INET6 : AF_INET;
  if (inet_pton(family, address.c_str(), cidr.address.data() + first) != 1 ||
      error != std::errc() || end != bits_end || !is_possible) {
    return fail(Code::kInvalidUsage,
                "'" + cidr.text + "' is not a range as 10.0.0.0/8 or fd00::/8");
  }
  return cidr;
}

bool Cidr::contains(const Gid& gid) const {
  if (is_ipv4_mapped(gid) != is_ipv4_mapped(address)) return false;
  const int whole = prefix_bits / 8;
  if (!std::equal(gid.begin(), gid.begin() + whole, address.begin())) return false;
  return prefix_bits % 8 == 0 || (gid[whole] ^ address[whole]) >> (8 - prefix_bits % 8) == 0;
}

bool is_ipv4_mapped(const Gid& gid) {
  return std::equal(gid.begin(), gid.begin() + kIpv4At, kIpv4Mapped.begin());
}

bool is_same_subnet(const Gid& a, const Gid& b, int ipv4_prefix_bits) {
  constexpr int kSubnetPrefix = 64;
  if (is_null(a) || is_null(b)) return false;
  const int bits = is_ipv4_mapped(a) ? 8 * kIpv4At + ipv4_prefix_bits : kSubnetPrefix;
  return Cidr{.text = "", .address = a, .prefix_bits = bits}.contains(b);
}

int family_of(const Gid& gid) { return is_ipv4_mapped(gid) ? AF_INET : AF_INET6; }

bool is_null(const Gid& gid) {
  bool rest_is_zero = std::all_of(gid.begin() + 4, gid.end(), [](uint8_t b) { return b == 0; });
  bool zero = gid[0] == 0 && gid[1] == 0 && gid[2] == 0 && gid[3] == 0;
  bool link_local = gid[0] == 0xfe && gid[1] == 0x80 && gid[2] == 0 && gid[3] == 0;
  return rest_is_zero && (zero || link_local);
}

bool is_link_local(const Gid& gid) {
  return gid[0] == 0xfe && gid[1] == 0x80 &&
         std::all_of(gid.begin() + 2, gid.begin() + 8, [](uint8_t b) { return b == 0; });
}

uint16_t flid_of(const Gid& gid) { return static_cast<uint16_t>(gid[4] << 8 | gid[5]); }

std::string to_string(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, gid.data(), text, sizeof(text));
  return text;
}

const char* to_string(GidType type) {
  switch (type) {
    case GidType::kIb:
      return "IB";
    case GidType::kRoceV1:
      return "RoCE v1";
    case GidType::kRoceV2:
      return "RoCE v2";
  }
  return "unknown";
}

Result<GidEntry> select_gid(const std::vector<GidEntry>& table, const GidPreference& preference) {
  if (preference.forced_index >= 0) return forced(table, preference.forced_index);
  const GidEntry* best = nullptr;
  for (const GidEntry& entry : table) {
    if (is_null(entry.gid)) continue;
    if (preference.range && !preference.range->contains(entry.gid)) continue;
    if (best == nullptr || rank(entry, preference) < rank(*best, preference)) best = &entry;
  }
  if (best != nullptr) return *best;
  if (preference.range) {
    return fail(Code::kInvalidUsage, "no GID lies in NCCL_IB_ADDR_RANGE " +
                                         preference.range->to_string() + "; the port has " +
                                         text_of_all(table) +
                                         ". Fix: widen the range, or choose by NCCL_IB_GID_INDEX");
  }
  return fail(Code::kSystem,
              "the port has no GID. Fix: give its network interface an address and bring it up");
}

Result<GidEntry> resolve_gid(const Device& device, const GidPreference& preference) {
  Result<std::vector<GidEntry>> table = read_table(device);
  if (!table) return forward_error(table);
  Result<GidEntry> chosen = device.state.ethernet ? select_gid(*table, preference)
                                                  : select_infiniband_gid(*table, preference);
  if (!chosen) chosen.error().text = to_string(device) + ": " + chosen.error().text;
  return chosen;
}

std::optional<int> find_gid(const Device& device, const GidEntry& former) {
  const Result<std::vector<GidEntry>> table = read_table(device);
  if (!table) return {};
  std::optional<int> found;
  for (const GidEntry& entry : *table) {
    if (entry.gid != former.gid || entry.type != former.type) continue;
    if (!found || entry.index == former.index) found = entry.index;
  }
  return found;
}

}  // namespace gdr::transport

// Which GID of a RoCE port to use, as NCCL chooses it, but the same on every run.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/device/cidr.h"

namespace gdr::transport {

// kIb is what older libraries report for RoCE v1 too; on a RoCE port it counts as v1.
enum class GidType : uint8_t { kIb, kRoceV1, kRoceV2 };

struct GidEntry {
  int index = 0;  // in the port's GID table
  Gid gid{};
  GidType type = GidType::kIb;
};

struct GidPreference {
  int forced_index = -1;                     // NCCL_IB_GID_INDEX; -1 chooses
  int roce_version = 2;                      // NCCL_IB_ROCE_VERSION_NUM
  int family = AF_INET;                      // NCCL_IB_ADDR_FAMILY
  std::optional<Cidr> range = std::nullopt;  // NCCL_IB_ADDR_RANGE
};

// Null GIDs never. A forced index must exist. A range must hold. Then, in this order: the wanted
// family, an address that is not link-local, the wanted RoCE version, the lowest index. What cannot
// be had gives way, as in NCCL; compromise() tells.
Result<GidEntry> select_gid(const std::vector<GidEntry>& table, const GidPreference& preference);

// What was wanted and not had, for a log line; empty when nothing.
std::string unmet_preference(const GidEntry& chosen, const GidPreference& preference);

// All zeros, or a link-local prefix with no interface behind it: an unused slot of the table.
bool is_null(const Gid& gid);
bool is_link_local(const Gid& gid);

std::string to_string(const Gid& gid);  // IPv6 notation; IPv4-mapped as ::ffff:a.b.c.d
const char* to_string(GidType type);

}  // namespace gdr::transport

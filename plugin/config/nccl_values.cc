#include "plugin/config/nccl_values.h"

#include <strings.h>

#include <climits>
#include <string_view>

#include "plugin/config/values.h"

namespace gdr::config {

using Kind = topology::nccl::NetDevicesPolicy::Kind;

Result<NcclSwitch> NcclSwitch::parse(const std::string& text) {
  NcclSwitch parsed;
  Status status = parse_integer(text, {INT_MIN, INT_MAX}, &parsed.number_);
  if (!status) return forward_error(status);
  return parsed;
}

Result<DevicesPolicy> DevicesPolicy::parse(const std::string& text) {
  constexpr std::string_view kMax = "MAX:";
  DevicesPolicy parsed;
  if (strcasecmp(text.c_str(), "AUTO") == 0) return parsed;
  if (strcasecmp(text.c_str(), "ALL") == 0) {
    parsed.policy_.kind = Kind::kAll;
    return parsed;
  }
  if (strncasecmp(text.c_str(), kMax.data(), kMax.size()) == 0 &&
      parse_integer(text.substr(kMax.size()), {1, INT_MAX}, &parsed.policy_.max)) {
    parsed.policy_.kind = Kind::kMax;
    return parsed;
  }
  return fail(Code::kInvalidUsage, "it is not AUTO, ALL or MAX:n with n from 1 (NCCL takes AUTO)");
}

std::string DevicesPolicy::to_string() const {
  if (policy_.kind == Kind::kAll) return "ALL";
  return policy_.kind == Kind::kMax ? "MAX:" + std::to_string(policy_.max) : "AUTO";
}

}  // namespace gdr::config

// Values of NCCL's variables that have a grammar of their own.
#pragma once

#include <string>

#include "base/result.h"
#include "topology/nccl/settings.h"

namespace gdr::config {

// A number of which NCCL asks only whether it is 0, and whose default depends on NCCL's release.
class NcclSwitch {
 public:
  // Reads a number as NCCL does, see parse_integer(). Fails with kInvalidUsage for other text.
  static Result<NcclSwitch> parse(const std::string& text);

  bool on() const { return number_ != 0; }
  std::string to_string() const { return std::to_string(number_); }

 private:
  int number_ = 0;
};

// The value of NCCL_NETDEVS_POLICY.
class DevicesPolicy {
 public:
  // Parses "AUTO", "ALL" or "MAX:n" with n from 1, in either case. Fails with kInvalidUsage for
  // other text, for which NCCL takes AUTO.
  static Result<DevicesPolicy> parse(const std::string& text);

  const topology::nccl::NetDevicesPolicy& policy() const { return policy_; }
  std::string to_string() const;

 private:
  topology::nccl::NetDevicesPolicy policy_;
};

}  // namespace gdr::config

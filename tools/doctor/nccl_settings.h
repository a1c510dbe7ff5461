// Variables of NCCL as the checks show them: the value, and what set it.
#pragma once

#include <optional>
#include <string>

namespace gdr::tools::doctor {

struct Host;

// Returns the value of a variable that is set to something.
std::optional<std::string> nccl_setting(const Host& host, const std::string& name);

// Returns its value as NCCL reads numbers (strtoll with base 0, as 0 what is none); nothing where
// it is unset or empty.
std::optional<long long> nccl_number(const Host& host, const std::string& name);

// Returns the setting with what made it: "NCCL_IB_HCA="mlx5" (environment)", "NCCL_IB_HCA="mlx5"
// (/etc/nccl.conf:3)".
std::string setting_text(const Host& host, const std::string& name);

// Returns how to take it back: "unset NCCL_IB_HCA", "remove line 3 of /etc/nccl.conf".
std::string unset_text(const Host& host, const std::string& name);

// Returns how to set it to another value: "export NCCL_IB_HCA=mlx5_0", or in its line of the file.
std::string set_text(const Host& host, const std::string& name, const std::string& value);

}  // namespace gdr::tools::doctor

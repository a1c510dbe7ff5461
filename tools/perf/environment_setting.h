// The variable in which the two sides of a comparison differ.
#pragma once

#include <string>

#include "base/result.h"

namespace gdr::tools {

struct EnvironmentSetting {
  std::string name;
  std::string value;

  std::string text() const { return name + "=" + value; }
  bool operator==(const EnvironmentSetting&) const = default;
};

// The plugin's variable for the ways to GPU memory, which "staging" stands for.
inline constexpr char kGpuMemoryVariable[] = "GDR_NCCL_GPU_MEMORY";

// "staging", or NAME=VALUE with a name as a shell takes it; the value may be empty.
Result<EnvironmentSetting> parse_setting(const std::string& text);

}  // namespace gdr::tools

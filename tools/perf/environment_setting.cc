#include "tools/perf/environment_setting.h"

#include <fmt/format.h>

namespace gdr::tools {
namespace {
constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
constexpr char kDigits[] = "0123456789";

bool is_name(const std::string& text) {
  return !text.empty() && std::string(kDigits).find(text[0]) == std::string::npos &&
         text.find_first_not_of(std::string(kLetters) + kDigits) == std::string::npos;
}
}  // namespace

Result<EnvironmentSetting> parse_setting(const std::string& text) {
  if (text == "staging") return EnvironmentSetting{kGpuMemoryVariable, "staging"};
  size_t equals = text.find('=');
  std::string name = text.substr(0, equals);
  if (equals == std::string::npos || !is_name(name)) {
    return fail(Code::kInvalidArgument,
                fmt::format("--compare: \"{}\" is neither staging nor NAME=VALUE", text));
  }
  return EnvironmentSetting{name, text.substr(equals + 1)};
}

}  // namespace gdr::tools

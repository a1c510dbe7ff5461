#include "tools/topo/user_settings.h"

#include <fmt/format.h>

#include <utility>

#include "tools/topo/labels.h"

namespace gdr::tools::topo {
namespace {

constexpr std::pair<const char*, const char*> kFlags[] = {{"NCCL_IB_HCA", "--hca"},
                                                          {"NCCL_NET_GDR_LEVEL", "--gdr-level"},
                                                          {"GDR_NCCL_RAIL_MAP", "--rail-map"}};

std::string flag_of(const std::string& name) {
  for (const auto& [variable, flag] : kFlags) {
    if (variable == name) return flag;
  }
  return name;
}

}  // namespace

std::string setting_text(const UserSettings& settings, const std::string& name) {
  const auto found = settings.find(name);
  if (found == settings.end()) return name;
  const UserSetting& setting = found->second;
  if (setting.from == UserSetting::From::kOption) return flag_of(name) + " " + setting.value;
  const std::string text = name + "=" + setting.value;
  if (setting.from == UserSetting::From::kEnvironment) return text;
  return fmt::format("{} in line {} of {}", text, setting.line, setting.file);
}

std::string origin_text(const UserSettings& settings, const std::string& name) {
  const auto found = settings.find(name);
  if (found == settings.end()) return "";
  const UserSetting& setting = found->second;
  switch (setting.from) {
    case UserSetting::From::kOption:
      return flag_of(name);
    case UserSetting::From::kEnvironment:
      break;
    case UserSetting::From::kFile:
      return fmt::format("{} in line {} of {}", name, setting.line, clean_text(setting.file));
  }
  return name + " in the environment";
}

}  // namespace gdr::tools::topo

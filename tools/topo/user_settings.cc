#include "tools/topo/user_settings.h"

#include <fmt/format.h>

#include "tools/topo/labels.h"

namespace gdr::tools::topo {

std::string flag_of(const std::string& variable) {
  if (variable == kHcaVariable) return "--hca";
  if (variable == kLevelVariable) return "--gdr-level";
  return variable == kRailMapVariable ? "--rail-map" : variable;
}

SettingSources read_sources() {
  SettingSources sources;
  sources.process = config::process_environment();
  sources.all = config::process_environment_with_nccl_conf(&sources.places);
  return sources;
}

std::optional<UserSetting> find_source(const SettingSources& sources, const std::string& name,
                                       const std::optional<std::string>& option) {
  UserSetting setting;
  if (const auto place = sources.places.find(name); place != sources.places.end()) {
    setting.file = place->second.file;
    setting.line = place->second.line;
  }
  if (option.has_value()) {
    setting.from = UserSetting::From::kOption;
  } else if (sources.process.count(name) == 0) {
    setting.from = UserSetting::From::kFile;
  }
  const auto variable = sources.all.find(name);
  setting.value = option.value_or(variable == sources.all.end() ? "" : variable->second);
  if (setting.value.empty()) return std::nullopt;
  return setting;
}

const UserSetting* find_setting(const UserSettings& settings, const std::string& name) {
  const auto found = settings.find(name);
  return found == settings.end() ? nullptr : &found->second;
}

std::string setting_text(const UserSettings& settings, const std::string& name) {
  const UserSetting* found = find_setting(settings, name);
  if (found == nullptr) return name;
  const UserSetting& setting = *found;
  if (setting.from == UserSetting::From::kOption) return flag_of(name) + " " + setting.value;
  const std::string text = name + "=" + setting.value;
  if (setting.from == UserSetting::From::kEnvironment) return text;
  return fmt::format("{} in line {} of {}", text, setting.line, setting.file);
}

std::string origin_text(const UserSettings& settings, const std::string& name) {
  const UserSetting* found = find_setting(settings, name);
  if (found == nullptr) return "";
  const UserSetting& setting = *found;
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

std::string removal_text(const UserSettings& settings, const std::string& name) {
  const UserSetting* found = find_setting(settings, name);
  if (found == nullptr) return "unset " + name;
  switch (found->from) {
    case UserSetting::From::kOption:
      return "leave out " + setting_text(settings, name);
    case UserSetting::From::kEnvironment:
      break;
    case UserSetting::From::kFile:
      return fmt::format("remove {} from line {} of {}", name, found->line,
                         clean_text(found->file));
  }
  return "unset " + name;
}

}  // namespace gdr::tools::topo

#include "tools/inspection/user_settings.h"

#include <fmt/format.h>

#include "tools/inspection/labels.h"

namespace gdr::tools::topo {

SettingSources read_sources() {
  SettingSources sources;
  sources.process = config::process_environment();
  sources.all = config::process_environment_with_nccl_conf(&sources.places);
  return sources;
}

std::optional<UserSetting> find_source(const SettingSources& sources, const std::string& name) {
  const auto variable = sources.all.find(name);
  if (variable == sources.all.end() || variable->second.empty()) return std::nullopt;
  UserSetting setting;
  setting.value = variable->second;
  if (const auto place = sources.places.find(name); place != sources.places.end()) {
    setting.file = place->second.file;
    setting.line = place->second.line;
  }
  if (sources.process.count(name) == 0) setting.from = UserSetting::From::kFile;
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
  const std::string text = name + "=" + setting.value;
  if (setting.from == UserSetting::From::kEnvironment) return text;
  return fmt::format("{} in line {} of {}", text, setting.line, setting.file);
}

std::string origin_text(const UserSettings& settings, const std::string& name) {
  const UserSetting* found = find_setting(settings, name);
  if (found == nullptr) return "";
  if (found->from == UserSetting::From::kEnvironment) return name + " in the environment";
  return fmt::format("{} in line {} of {}", name, found->line, clean_text(found->file));
}

std::string removal_text(const UserSettings& settings, const std::string& name) {
  const UserSetting* found = find_setting(settings, name);
  if (found == nullptr || found->from == UserSetting::From::kEnvironment) return "unset " + name;
  return fmt::format("remove {} from line {} of {}", name, found->line, clean_text(found->file));
}

}  // namespace gdr::tools::topo

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
  const auto place = sources.places.find(name);
  const bool is_of_file = place != sources.places.end() && !sources.process.contains(name);
  return UserSetting{variable->second, is_of_file ? std::optional(place->second) : std::nullopt};
}

std::string setting_text(const UserSettings& settings, const std::string& name) {
  const auto found = settings.find(name);
  if (found == settings.end()) return name;
  const auto& [value, place] = found->second;
  const std::string text = name + "=" + value;
  return place ? fmt::format("{} in line {} of {}", text, place->line, place->file) : text;
}

}  // namespace gdr::tools::topo

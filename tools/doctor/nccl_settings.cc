#include "tools/doctor/nccl_settings.h"

#include <fmt/format.h>

#include <cstdlib>

#include "plugin/config/values.h"
#include "tools/doctor/host.h"

namespace gdr::tools::doctor {
namespace {

// Returns the line that is in force; null where the process environment has the variable, which
// counts before every file.
const config::ConfPlace* place_of(const Host& host, const std::string& name) {
  const auto place = host.conf_places.find(name);
  if (place == host.conf_places.end()) return nullptr;
  if (host.is_live && std::getenv(name.c_str()) != nullptr) return nullptr;
  return &place->second;
}

}  // namespace

std::optional<std::string> nccl_setting(const Host& host, const std::string& name) {
  const auto found = host.environment.find(name);
  if (found == host.environment.end() || found->second.empty()) return {};
  return found->second;
}

std::optional<long long> nccl_number(const Host& host, const std::string& name) {
  const std::optional<std::string> text = nccl_setting(host, name);
  if (!text.has_value()) return {};
  return std::strtoll(text->c_str(), nullptr, 0);
}

std::string setting_text(const Host& host, const std::string& name) {
  const auto found = host.environment.find(name);
  const std::string value = found == host.environment.end() ? "" : config::printable(found->second);
  const config::ConfPlace* place = place_of(host, name);
  const std::string source =
      place == nullptr ? "environment"
                       : fmt::format("{}:{}", config::printable(place->file), place->line);
  return fmt::format("{}={} ({})", config::printable(name), value, source);
}

std::string unset_text(const Host& host, const std::string& name) {
  if (const config::ConfPlace* place = place_of(host, name)) {
    return fmt::format("remove line {} of {}", place->line, config::printable(place->file));
  }
  return "unset " + config::printable(name);
}

std::string set_text(const Host& host, const std::string& name, const std::string& value) {
  if (const config::ConfPlace* place = place_of(host, name)) {
    return fmt::format("write {}={} in line {} of {}", config::printable(name), value, place->line,
                       config::printable(place->file));
  }
  return fmt::format("export {}={}", config::printable(name), value);
}

}  // namespace gdr::tools::doctor

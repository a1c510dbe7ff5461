#include "tools/doctor/nccl_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <system_error>
#include <utility>

#include "plugin/config/socket_interface.h"
#include "plugin/config/values.h"
#include "plugin/discovery/hca_filter.h"
#include "tools/doctor/facts/host.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;

// Returns the line that is in force; null where the process environment has the variable, which
// counts before every file.
const config::ConfPlace* place_of(const Host& host, const std::string& name) {
  const auto place = host.conf_places.find(name);
  if (place == host.conf_places.end()) return nullptr;
  const bool is_of_process = host.is_live || !host.file.empty();
  if (is_of_process && std::getenv(name.c_str()) != nullptr) return nullptr;
  return &place->second;
}

// The list with commas for blanks and its signs once, as far as the plugin can read it; "^": it
// cannot.
template <class Filter>
std::string readable(std::string list) {
  std::replace_if(
      list.begin(), list.end(), [](char c) { return c == ' ' || c == '\t'; }, ',');
  const std::string signs = list.substr(0, list.find_first_not_of("^="));
  for (size_t at = 0; !signs.empty() && (at = list.find("," + signs, at)) != list.npos;) {
    list.erase(at + 1, signs.size());
  }
  const Result<Filter> filter = Filter::parse(list);
  return filter ? filter->to_string() : "^";
}

}  // namespace

std::optional<std::string> nccl_setting(const Host& host, const std::string& name) {
  const auto found = host.environment.find(name);
  if (found == host.environment.end() || found->second.empty()) return {};
  return found->second;
}

std::optional<int64_t> nccl_number(const Host& host, const std::string& name) {
  const std::optional<std::string> text = nccl_setting(host, name);
  return text.has_value() ? config::nccl_number(*text) : std::nullopt;
}

std::string source_text(const Host& host, const std::string& name) {
  const config::ConfPlace* place = place_of(host, name);
  if (place == nullptr) return "environment";
  return fmt::format("{}:{}", config::printable(place->file), place->line);
}

std::string value_text(const Host& host, const std::string& name) {
  const auto found = host.environment.find(name);
  const std::string value = found == host.environment.end() ? "" : config::printable(found->second);
  return fmt::format("{} ({})", value, source_text(host, name));
}

std::string setting_text(const Host& host, const std::string& name) {
  return fmt::format("{}={}", config::printable(name), value_text(host, name));
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

std::string correct_text(const Host& host, const std::string& name) {
  const std::string value = nccl_setting(host, name).value_or("");
  std::string list;
  if (name == "NCCL_IB_HCA") list = readable<discovery::HcaFilter>(value);
  if (name == "NCCL_SOCKET_IFNAME") list = readable<config::InterfaceFilter>(value);
  if (!list.empty() && list != "^" && list != value) return set_text(host, name, list);
  return name == "NCCL_IB_HCA" && list == "^" && value.find(':') != value.npos
             ? "write each HCA of it as NAME or NAME:PORT"
             : unset_text(host, name);
}

std::string exclude_text(const Host& host, const std::vector<std::string>& ports) {
  constexpr char kName[] = "NCCL_IB_HCA";
  const bool is_set = nccl_setting(host, kName).has_value();
  const std::string list = fmt::format("{}", fmt::join(ports, ","));
  return is_set ? fmt::format("leave {} out in {}", list, setting_text(host, kName))
                : fmt::format("export {}=^={}", kName, list);
}

Observation nothing_set(const Host& host, std::string healthy) {
  if (host.is_live) return ok("", std::move(healthy));
  return unknown("", "the environment of another machine's jobs is not known",
                 "run it on the machine, in the job");
}

// NCCL looks for an entry as a library's name, and as libnccl-net-ENTRY.so; names of files are in
// this case only.
bool names_this_plugin(const std::string& entry) {
  return entry == "gdr" || entry.substr(entry.rfind('/') + 1) == "libnccl-net-gdr.so";
}

std::vector<std::string> plugin_entries(const Host& host) {
  std::istringstream list(nccl_setting(host, "NCCL_NET_PLUGIN").value_or(""));
  std::vector<std::string> entries;
  for (std::string entry; std::getline(list, entry, ',');) {
    if (!entry.empty()) entries.push_back(entry);
  }
  return entries;
}

bool asks_for_this_plugin(const Host& host) {
  const std::vector<std::string> entries = plugin_entries(host);
  return std::any_of(entries.begin(), entries.end(), names_this_plugin);
}

std::optional<Observation> left_out(const Host& host, const char* name) {
  const std::string file = nccl_setting(host, name).value_or("");
  if (host.is_live || !host.file.empty() || file.empty() || host.exists(file)) return {};
  std::error_code absent;
  const bool is_link = fs::is_symlink(fs::symlink_status(host.path(file), absent));
  const std::string copied[] = {"/proc/", "/sys/", "/dev/", "/etc/"};
  const bool is_copied = std::any_of(std::begin(copied), std::end(copied),
                                     [&](const auto& folder) { return file.starts_with(folder); });
  if (is_copied && !is_link) return {};
  return unknown(name, value_text(host, name) + ", which the copy does not have",
                 "copy the file, too, or run it on the machine itself");
}

}  // namespace gdr::tools::doctor

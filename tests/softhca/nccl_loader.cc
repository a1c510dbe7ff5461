#include "tests/softhca/nccl_loader.h"

#include <dlfcn.h>

#include <sstream>
#include <utility>

namespace gdr {
namespace {

std::string short_name(const std::string& entry) { return "libnccl-net-" + entry + ".so"; }

bool is_library_name(const std::string& entry) {
  return entry.starts_with("lib") && entry.ends_with(".so");
}

std::vector<std::string> entries_of(const NcclRelease& release, const std::string& value) {
  if (!release.takes_list) return {value};
  std::vector<std::string> entries;
  std::istringstream list(value);
  for (std::string entry; std::getline(list, entry, ',');) {
    if (!entry.empty()) entries.push_back(entry);
  }
  return entries;
}

// A library without a table is closed again.
std::optional<LoadedPlugin> load(const NcclRelease& release, const std::string& entry) {
  for (const std::string& file : files_to_try(release.rule, entry)) {
    Library library(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
    if (library == nullptr) continue;
    for (int version : release.tables) {
      const std::string symbol = "ncclNetPlugin_v" + std::to_string(version);
      const void* table = dlsym(library.get(), symbol.c_str());
      if (table != nullptr) return LoadedPlugin{file, std::move(library), version, table};
    }
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

void LibraryCloser::operator()(void* library) const { dlclose(library); }

const std::vector<NcclRelease>& nccl_releases() {
  using enum NameRule;
  static const std::vector<NcclRelease> releases{
      {"2.13 to 2.18", kShortName, false, {6, 5, 4}},
      {"2.19", kShortName, false, {7, 6, 5}},
      {"2.20", kShortName, false, {8, 7, 6, 5}},
      {"2.21 to 2.23", kAnyThenShortName, false, {8, 7, 6, 5}},
      {"2.24 and 2.25", kAnyThenShortName, false, {9, 8, 7, 6, 5}},
      {"2.26", kAnyThenShortName, false, {10, 9, 8, 7, 6}},
      {"2.27.3", kLibraryOrShortName, true, {10, 9, 8, 7, 6}},
      {"2.27.5 to 2.27.7", kAnyThenShortNameOfAWord, true, {10, 9, 8, 7, 6}},
      {"2.28 and 2.29", kAnyThenShortNameOfAWord, true, {11, 10, 9, 8, 7, 6}},
      {"2.30", kAnyThenShortNameOfAWord, true, {12, 11, 10, 9, 8, 7, 6}},
  };
  return releases;
}

std::vector<std::string> files_to_try(NameRule rule, const std::string& entry) {
  switch (rule) {
    case NameRule::kShortName:
      return {short_name(entry)};
    case NameRule::kAnyThenShortName:
      return {entry, short_name(entry)};
    case NameRule::kLibraryOrShortName:
      return {is_library_name(entry) ? entry : short_name(entry)};
    case NameRule::kAnyThenShortNameOfAWord:
      break;
  }
  if (is_library_name(entry) || entry.find('/') != std::string::npos) return {entry};
  return {entry, short_name(entry)};
}

std::vector<LoadedPlugin> load_plugins(const NcclRelease& release, const std::string& value) {
  std::vector<LoadedPlugin> plugins;
  for (const std::string& entry : entries_of(release, value)) {
    std::optional<LoadedPlugin> plugin = load(release, entry);
    if (plugin) plugins.push_back(std::move(*plugin));
  }
  return plugins;
}

}  // namespace gdr

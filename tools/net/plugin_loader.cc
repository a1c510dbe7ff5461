#include "tools/net/plugin_loader.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "tools/common/installed_folders.h"

namespace gdr::tools {
namespace {

// Null where the library has no table of the version.
const void* find_table(void* library, int version) {
  return dlsym(library, fmt::format("ncclNetPlugin_v{}", version).c_str());
}

std::string loaded_path(const void* symbol, const std::string& fallback) {
  Dl_info info{};
  return dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : fallback;
}
}  // namespace

void DlClose::operator()(void* library) const { dlclose(library); }

std::vector<std::string> plugin_candidates(const std::string& name,
                                           const std::string& program_dir) {
  if (name.find('/') != std::string::npos) return {name};
  bool is_file_name = name.starts_with("lib") && name.ends_with(".so");
  std::string file = is_file_name ? name : "libnccl-net-" + name + ".so";
  std::vector<std::string> candidates{name};
  if (!is_file_name) candidates.push_back(file);
  for (const std::string& folder : library_folders(program_dir)) {
    candidates.push_back(folder + "/" + file);
  }
  return candidates;
}

Result<Plugin> Plugin::load(const std::string& name, std::optional<int> table) {
  std::string reasons;
  for (const std::string& candidate : plugin_candidates(name, program_folder())) {
    Plugin plugin;
    plugin.handle_.reset(dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL));
    if (!plugin.handle_) {
      reasons += fmt::format("\n  {}", dlerror());
      continue;
    }
    plugin.file_ = candidate;
    if (Status chosen = plugin.choose(table); !chosen) return forward_error(chosen);
    return plugin;
  }
  return fail(Code::kSystem, fmt::format("cannot load the plugin \"{}\":{}", name, reasons));
}

Status Plugin::choose(std::optional<int> wanted) {
  for (int version = kNewestTable; version >= kOldestTable; --version) {
    if (find_table(handle_.get(), version) != nullptr) tables_.push_back(version);
  }
  if (tables_.empty()) {
    return fail(Code::kUnsupported,
                fmt::format("{} exports no network table: none of ncclNetPlugin_v{} to "
                            "ncclNetPlugin_v{}",
                            file_, kOldestTable, kNewestTable));
  }
  int version = wanted.value_or(tables_.front());
  if (std::find(tables_.begin(), tables_.end(), version) == tables_.end()) {
    return fail(Code::kInvalidUsage,
                fmt::format("{} exports no ncclNetPlugin_v{}; it has the versions {}", file_,
                            version, fmt::join(tables_, ", ")));
  }
  const void* table = find_table(handle_.get(), version);
  net_ = make_net(version, table);
  file_ = loaded_path(table, file_);
  return {};
}

Result<std::optional<int>> parse_table(const std::string& text) {
  if (text == "newest") return std::optional<int>();
  int version = 0;
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, version);
  bool number = error == std::errc{} && stop == end;
  if (number && version >= kOldestTable && version <= kNewestTable) return version;
  return fail(Code::kInvalidArgument, fmt::format("\"{}\" is not a version: use newest or {} to {}",
                                                  text, kOldestTable, kNewestTable));
}

}  // namespace gdr::tools

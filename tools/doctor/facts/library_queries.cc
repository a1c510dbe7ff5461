// Reads LibraryFacts: searches for the libraries as the loader does, and reads their files.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "tools/doctor/facts/host.h"
#include "tools/doctor/facts/library_facts.h"
#include "tools/doctor/nccl_settings.h"
#include "tools/inspection/file_content.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;

constexpr int kOldestNetTable = 2;
constexpr int kNewestNetTable = 16;

std::string variable_of_process(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Returns the characters of a version: "2.28.9" of "2.28.9+cuda13.0".
std::string version_at(const std::string& text, size_t at) {
  const size_t end = text.find_first_not_of("0123456789.", at);
  return text.substr(at, end == std::string::npos ? end : end - at);
}

// NCCL and this plugin have their versions in texts; a library of rdma-core in its file's name,
// which is that of the package in the last numbers: libibverbs.so.1.14.44.0 is of rdma-core 44.0.
std::string version_of(const ElfFile& elf, const fs::path& real) {
  constexpr std::string_view kWord = "version ", kOfNccl = "NCCL ", kOfPlugin = " (wire version ";
  const std::string_view texts = elf.constants;
  for (size_t at = texts.find(kWord); at != texts.npos; at = texts.find(kWord, at + 1)) {
    const std::string version = version_at(elf.constants, at + kWord.size());
    const std::string_view rest = texts.substr(at + kWord.size() + version.size());
    const bool is_its_own = texts.substr(0, at).ends_with(kOfNccl) || rest.starts_with(kOfPlugin);
    if (is_its_own && version.find('.') != std::string::npos) return version;
  }
  const std::string name = real.filename().string();
  const size_t suffix = name.find(".so.");
  const std::string version = suffix == std::string::npos ? "" : version_at(name, suffix + 4);
  return version.find('.') == std::string::npos ? "" : version;  // "1" is that of the interface
}

LibraryFiles files_of(const Host& host, const std::string& name) {
  LibraryFiles files;
  const std::string path = host.is_live ? variable_of_process("LD_LIBRARY_PATH") : "";
  std::error_code unknown;
  const fs::path current = host.is_live ? fs::current_path(unknown) : fs::path();
  for (const FoundFile& one : find_library(host.root, name, path, current)) {
    files.push_back(read_library(host.root.string(), one.file, one.by));
  }
  return files;
}

// PyTorch's wheels bring NCCL as a package of its own, nvidia/nccl, which their libraries find by
// DT_RUNPATH.
void add_nccl_of_python(const Host& host, LibraryFiles* files) {
  std::vector<fs::path> prefixes = {host.path("/usr"), host.path("/usr/local")};
  if (!host.process.home.empty()) prefixes.emplace_back(host.process.home + "/.local");
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string prefix = host.is_live ? variable_of_process(name) : "";
    if (!prefix.empty()) prefixes.emplace_back(prefix);
  }
  for (const fs::path& prefix : prefixes) {
    for (const std::string& python : topo::folder_names(prefix / "lib")) {
      if (!python.starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"}) {
        const fs::path file = prefix / "lib" / python / packages / "nvidia/nccl/lib/libnccl.so.2";
        std::error_code error;
        if (!fs::is_regular_file(file, error)) continue;
        const std::string inside = "/" + file.lexically_relative(host.root).string();
        files->push_back(read_library(host.root.string(), inside, "Python"));
      }
    }
  }
}

std::string plugin_beside_program(const Host& host) {
  if (!host.is_live) return "";
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const fs::path file = self.parent_path().parent_path() / "lib/libnccl-net-gdr.so";
  return !error && fs::is_regular_file(file, error) ? file.string() : "";
}

// NCCL_IBVERBS_LIB may be a path or a name.
LibraryFiles verbs_files(const Host& host) {
  const auto named = host.environment.find("NCCL_IBVERBS_LIB");
  if (named != host.environment.end() && !named->second.empty()) {
    std::error_code error;
    const std::string& file = named->second;
    if (file.front() == '/' && fs::exists(host.path(file), error)) {
      return {read_library(host.root.string(), file, "NCCL_IBVERBS_LIB")};
    }
    if (LibraryFiles files = files_of(host, file); !files.empty()) return files;
  }
  return files_of(host, "libibverbs.so.1");
}

// As NCCL searches; "STATIC_PLUGIN" is the program itself. Paths are judged by nccl_transport.cc.
std::vector<std::string> missing_plugins(const Host& host) {
  std::vector<std::string> missing;
  for (const std::string& entry : plugin_entries(host)) {
    const bool is_name =
        entry != "none" && entry != "STATIC_PLUGIN" && entry.find('/') == std::string::npos;
    if (!is_name || !files_of(host, entry).empty()) continue;
    const std::string file = entry.ends_with(".so") ? entry : "libnccl-net-" + entry + ".so";
    if (files_of(host, file).empty()) missing.push_back(file);
  }
  return missing;
}

}  // namespace

LibraryFile read_library(const std::string& root, const std::string& file,
                         const std::string& found_by) {
  LibraryFile library{file, found_by, ""};
  std::error_code error;
  const fs::path real = fs::canonical(fs::path(root) / fs::path(file).relative_path(), error);
  const std::optional<ElfFile> elf = error ? std::nullopt : read_elf_file(real);
  if (!elf) return library;
  library.version = version_of(*elf, real);
  for (int table = kOldestNetTable; table <= kNewestNetTable; ++table) {
    if (elf->has_name(fmt::format("ncclNetPlugin_v{}", table))) {
      library.net_tables.push_back(table);
    }
  }
  library.is_software_hca = elf->constants.find("SOFTHCA_CONFIG") != std::string::npos;
  library.is_this_plugin =
      !library.net_tables.empty() && elf->constants.find("GDR_NCCL_") != std::string::npos;
  return library;
}

int nccl_version_code(const std::string& version) {
  int major = 0, minor = 0, patch = 0;
  if (std::sscanf(version.c_str(), "%d.%d.%d", &major, &minor, &patch) < 2) return 0;
  if (major < 2 || minor < 0 || minor > 99 || patch < 0 || patch > 99) return 0;
  return major * 10000 + minor * 100 + patch;
}

LibraryFacts read_library_facts(const Host& host) {
  LibraryFacts facts;
  if (!host.is_live) return facts;
  facts.is_known = true;
  facts.verbs = verbs_files(host);
  facts.nccl = files_of(host, "libnccl.so.2");
  add_nccl_of_python(host, &facts.nccl);
  facts.gdr_plugin = files_of(host, "libnccl-net-gdr.so");
  facts.default_plugin = files_of(host, "libnccl-net.so");
  facts.missing_plugins = missing_plugins(host);
  facts.own_plugin = plugin_beside_program(host);
  return facts;
}

}  // namespace gdr::tools::doctor

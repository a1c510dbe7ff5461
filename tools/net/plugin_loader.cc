#include "tools/common/plugin_loader.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

namespace gdr::tools {
namespace {
constexpr char kSymbol[] = "ncclNetPlugin_v8";

std::string program_directory() {
  std::error_code error;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string(".") : self.parent_path().string();
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
  candidates.push_back(program_dir + "/../lib/" + file);
  return candidates;
}

Result<Plugin> Plugin::load(const std::string& name) {
  std::string reasons;
  for (const std::string& candidate : plugin_candidates(name, program_directory())) {
    Plugin plugin;
    plugin.handle_.reset(dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL));
    if (!plugin.handle_) {
      reasons += fmt::format("\n  {}", dlerror());
      continue;
    }
    void* symbol = dlsym(plugin.handle_.get(), kSymbol);
    if (symbol == nullptr) {
      return fail(Code::kInvalidUsage, fmt::format("{} has no {}", candidate, kSymbol));
    }
    plugin.net_ = static_cast<const abi::ncclNet_v8_t*>(symbol);
    plugin.file_ = loaded_path(symbol, candidate);
    return plugin;
  }
  return fail(Code::kInvalidUsage, fmt::format("cannot load the plugin \"{}\":{}", name, reasons));
}

std::string describe(abi::ncclResult_t result) {
  switch (result) {
    case abi::ncclSuccess:
      return "success";
    case abi::ncclUnhandledCudaError:
      return "unhandled CUDA error (1)";
    case abi::ncclSystemError:
      return "system error (2)";
    case abi::ncclInternalError:
      return "internal error (3)";
    case abi::ncclInvalidArgument:
      return "invalid argument (4)";
    case abi::ncclInvalidUsage:
      return "invalid usage (5)";
    case abi::ncclRemoteError:
      return "remote error (6)";
  }
  return fmt::format("unknown result ({})", static_cast<int>(result));
}

}  // namespace gdr::tools

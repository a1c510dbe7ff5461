// The releases of libraries, as the loader finds them for this process.
#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "tools/doctor/elf_file.h"
#include "tools/doctor/fingerprint.h"

namespace gdr::tools::doctor {
namespace {

constexpr size_t kLongestRelease = 40;  // characters

struct CloseFingerprintLibrary {
  void operator()(void* handle) const { dlclose(handle); }
};
using FingerprintLibrary = std::unique_ptr<void, CloseFingerprintLibrary>;

FingerprintLibrary load_for_fingerprint(const char* name) {
  return FingerprintLibrary(dlopen(name, RTLD_LAZY | RTLD_LOCAL));
}

// The file that was loaded, behind all links.
std::filesystem::path fingerprint_file_of(void* handle) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return "";
  std::error_code failed;
  const std::filesystem::path file = std::filesystem::canonical(map->l_name, failed);
  return failed ? map->l_name : file;
}

// Calls a function of the form `int f(int*)` that returns 0 and the version.
std::optional<int> fingerprint_version_by(void* handle, const char* symbol) {
  using GetVersion = int (*)(int*);
  const auto get_version = reinterpret_cast<GetVersion>(dlsym(handle, symbol));
  int version = 0;
  if (get_version == nullptr || get_version(&version) != 0) return {};
  return version;
}

// 12080 is 12.8.
std::string fingerprint_cuda_release(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

template <class Text>
std::optional<std::string> fingerprint_release_by(const char* library, const char* symbol,
                                                  Text text) {
  const FingerprintLibrary handle = load_for_fingerprint(library);
  if (handle == nullptr) return "none";
  const std::optional<int> version = fingerprint_version_by(handle.get(), symbol);
  return version.has_value() ? std::optional<std::string>(text(*version)) : std::nullopt;
}

}  // namespace

std::string nccl_release(int code) {
  const int base = code < 10000 ? 1000 : 10000;
  return fmt::format("{}.{}.{}", code / base, code % base / 100, code % 100);
}

std::string rdma_core_release(const std::string& file) {
  constexpr char kBefore[] = ".so.1.";
  const size_t at = file.find(kBefore);
  if (at == std::string::npos) return file;
  const std::string numbers = file.substr(at + sizeof kBefore - 1);  // "14.44.0"
  const size_t dot = numbers.find('.');
  return dot == std::string::npos ? file : numbers.substr(dot + 1);
}

// The plugin logs "version 1.2.3 (wire version %d, ...", a text among its constants.
std::string plugin_release(const std::string& file) {
  constexpr char kBefore[] = "version ", kAfter[] = " (wire version ";
  const std::optional<ElfFile> elf = read_elf_file(file);
  const size_t end = elf ? elf->constants.find(kAfter) : std::string::npos;
  if (end == std::string::npos) return "found";
  const std::string text = elf->constants.substr(0, end);
  const size_t begin = text.rfind(kBefore) + sizeof kBefore - 1;
  const bool is_near = text.rfind(kBefore) != std::string::npos && end - begin <= kLongestRelease;
  return is_near ? text.substr(begin) : "found";
}

// cuDriverGetVersion() needs no cuInit().
Properties loaded_libraries() {
  Properties found;
  found["CUDA driver API"] =
      fingerprint_release_by("libcuda.so.1", "cuDriverGetVersion", fingerprint_cuda_release);
  found["NCCL"] = fingerprint_release_by("libnccl.so.2", "ncclGetVersion", nccl_release);
  const FingerprintLibrary verbs = load_for_fingerprint("libibverbs.so.1");
  found["rdma-core"] =
      verbs == nullptr ? "none"
                       : rdma_core_release(fingerprint_file_of(verbs.get()).filename().string());
  const FingerprintLibrary plugin = load_for_fingerprint("libnccl-net-gdr.so");
  found["plugin in the library path"] =
      plugin == nullptr ? "none" : plugin_release(fingerprint_file_of(plugin.get()).string());
  return found;
}

}  // namespace gdr::tools::doctor

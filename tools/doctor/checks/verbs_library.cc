#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;

constexpr char kInstallVerbs[] =
    "install rdma-core's libraries: apt install libibverbs1 ibverbs-providers, or dnf install "
    "libibverbs";

// The driver of a PCI function and the provider that its RDMA devices need (rdma-core's
// providers/).
constexpr auto kProviders =
    std::to_array<std::pair<std::string_view, std::string_view>>({{"mlx5_core", "mlx5"},
                                                                  {"mlx4_core", "mlx4"},
                                                                  {"bnxt_en", "bnxt_re"},
                                                                  {"ice", "irdma"},
                                                                  {"i40e", "irdma"},
                                                                  {"idpf", "irdma"},
                                                                  {"efa", "efa"},
                                                                  {"erdma", "erdma"},
                                                                  {"hns3", "hns"},
                                                                  {"qede", "qedr"}});

struct ProviderNeed {
  std::string device;    // "mlx5_0"
  std::string provider;  // "mlx5"
};

// The RDMA devices of sysfs whose provider is known, in order.
std::vector<ProviderNeed> provider_needs(const Host& host) {
  std::vector<ProviderNeed> needs;
  for (const std::string& device : rdma_device_names(host)) {
    std::error_code error;
    const fs::path link = host.path("/sys/class/infiniband/" + device + "/device/driver");
    const std::string driver = fs::read_symlink(link, error).filename().string();
    for (const auto& [known, provider] : kProviders) {
      if (!error && driver == known) needs.push_back({device, std::string(provider)});
    }
  }
  return needs;
}

std::string describe_verbs(const LibraryFile& verbs) {
  return fmt::format("{}{} (by {})", verbs.file,
                     verbs.version.empty() ? "" : " is version " + verbs.version, verbs.found_by);
}

bool has_provider(const std::vector<std::string>& files, const std::string& provider,
                  const std::string& abi) {
  const std::string start = "lib" + provider + "-rdmav" + abi;
  return std::any_of(files.begin(), files.end(), [&](const std::string& file) {
    return file.starts_with(start) && file.ends_with(".so");
  });
}

// Providers of another release than the library's end in another number and are not loaded.
void judge_providers(const Host& host, const LibraryFile& verbs, Observations* seen) {
  if (!host.libraries.providers.has_value()) return;
  const std::vector<std::string>& files = *host.libraries.providers;
  for (const ProviderNeed& need : provider_needs(host)) {
    if (has_provider(files, need.provider, verbs.provider_abi)) continue;
    const bool is_of_another = has_provider(files, need.provider, "");
    seen->push_back(failure(
        need.device,
        fmt::format("its provider lib{}-rdmav{}.so is not in the folder libibverbs beside {}{}",
                    need.provider, verbs.provider_abi, verbs.file,
                    is_of_another ? ", only that of another release is" : ""),
        is_of_another ? "install libibverbs and its providers of one release, from one source"
                      : kInstallVerbs));
  }
}

Observations judge_software_hca(const Host& host, const LibraryFile& verbs) {
  const bool has_real = !provider_needs(host).empty();
  const std::string evidence = describe_verbs(verbs) + ": it is the software HCA";
  if (!has_real) return {ok("", evidence)};
  return {warning("", evidence + ", which hides the HCAs of this machine",
                  verbs.found_by == "LD_LIBRARY_PATH"
                      ? fmt::format("remove {} from LD_LIBRARY_PATH",
                                    fs::path(verbs.file).parent_path().string())
                      : "remove it from where the loader finds it")};
}

Observations run_verbs_library(const Host& host) {
  if (!host.libraries.is_known) {
    return {unknown("", "the libraries of another machine are not looked for",
                    "run it on the machine itself")};
  }
  if (host.libraries.verbs.empty()) {
    const std::string evidence = "the loader finds no libibverbs.so.1";
    if (rdma_device_names(host).empty()) return {ok("", evidence + ", and there is no HCA")};
    return {failure("", evidence, kInstallVerbs)};
  }
  const LibraryFile& verbs = host.libraries.verbs.front();
  if (verbs.is_software_hca) return judge_software_hca(host, verbs);
  Observations seen;
  judge_providers(host, verbs, &seen);
  std::string evidence = describe_verbs(verbs);
  for (size_t i = 1; i < host.libraries.verbs.size(); ++i) {
    evidence += "; not used: " + describe_verbs(host.libraries.verbs[i]);
  }
  seen.push_back(ok("", evidence));
  return seen;
}

}  // namespace

Check verbs_library() {
  return {.name = "verbs-library",
          .looks_at = "libibverbs as the loader finds it, and its providers for the HCAs",
          .why = "Without the library or an HCA's provider NCCL sees no HCA and uses sockets.",
          .cost = Cost::kStops,
          .run = run_verbs_library};
}

}  // namespace gdr::tools::doctor

// NCCL and the verbs library as the loader finds them.
#include <fmt/format.h>

#include <filesystem>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/nccl_settings.h"
#include "tools/doctor/topology.h"

namespace gdr::tools::doctor {
namespace {

// The first release that looks for ncclNetPlugin_v8, the oldest table of the plugin.
constexpr int kOldestNccl = 22000;

std::string describe_nccl(const LibraryFile& nccl) {
  return fmt::format("{} is NCCL {} (by {})", nccl.file,
                     nccl.version.empty() ? "of unknown version" : nccl.version, nccl.found_by);
}

// PyTorch finds its own copy by DT_RUNPATH, which the loader reads after LD_LIBRARY_PATH.
void judge_copies(const LibraryFiles& files, Observations* seen) {
  const LibraryFile& first = files.front();
  for (const LibraryFile& other : files) {
    if (first.found_by != "LD_LIBRARY_PATH" || other.found_by != "Python" ||
        first.version == other.version || first.version.empty() || other.version.empty()) {
      continue;
    }
    seen->push_back(warning(
        other.file,
        fmt::format("LD_LIBRARY_PATH leads PyTorch to {}, NCCL {}, instead of this copy, NCCL {}",
                    first.file, first.version, other.version),
        "remove that folder from LD_LIBRARY_PATH, or use the same release on every node"));
  }
}

namespace fs = std::filesystem;

constexpr char kInstallVerbs[] =
    "install rdma-core's libraries: apt install libibverbs1 ibverbs-providers, or dnf install "
    "libibverbs";

std::string describe_verbs(const LibraryFile& verbs) {
  return fmt::format("{}{} (by {})", verbs.file,
                     verbs.version.empty() ? "" : " is version " + verbs.version, verbs.found_by);
}

Observations judge_software_hca(const Host& host, const LibraryFile& verbs) {
  const std::string evidence = describe_verbs(verbs) + ": it is the software HCA";
  // Its own devices are in no class of the kernel.
  if (host.names("/sys/class/infiniband").empty()) return {ok("", evidence)};
  return {warning("", evidence + ", which hides the HCAs of this machine",
                  verbs.found_by == "LD_LIBRARY_PATH"
                      ? fmt::format("remove {} from LD_LIBRARY_PATH",
                                    fs::path(verbs.file).parent_path().string())
                      : "remove it from where the loader finds it")};
}

}  // namespace

Observations run_nccl_library(const Host& host) {
  if (!host.libraries.is_known) {
    return {unknown("", "the libraries of another machine are not looked for",
                    "run it on the machine itself")};
  }
  const LibraryFiles& files = host.libraries.nccl;
  if (files.empty()) {
    return {unknown("", "neither the loader nor Python's packages have a libnccl.so.2",
                    "run it in the job's own environment: its container, its virtual environment")};
  }
  Observations seen;
  for (const LibraryFile& file : files) {
    const int version = nccl_version_code(file.version);
    if (version == 0 || version >= kOldestNccl) {
      seen.push_back(ok("", describe_nccl(file)));
    } else if (asks_for_this_plugin(host)) {
      seen.push_back(failure("",
                             describe_nccl(file) + ", which does not know the plugin's tables "
                                                   "and uses its own transport",
                             "use NCCL 2.20 or later"));
    } else {
      seen.push_back(ok("", describe_nccl(file) + "; the plugin needs 2.20 or later"));
    }
  }
  judge_copies(files, &seen);
  return seen;
}

Observations run_verbs_library(const Host& host) {
  if (!host.libraries.is_known) {
    return {unknown("", "the libraries of another machine are not looked for",
                    "run it on the machine itself")};
  }
  if (host.libraries.verbs.empty()) {
    const std::string evidence = "the loader finds no libibverbs.so.1";
    if (rdma_device_names(host).empty()) {
      return {ok_without(host, "", evidence + ", and there is no HCA")};
    }
    return {failure("", evidence, kInstallVerbs)};
  }
  const LibraryFile& verbs = host.libraries.verbs.front();
  if (verbs.is_software_hca) return judge_software_hca(host, verbs);
  std::string evidence = describe_verbs(verbs);
  for (size_t i = 1; i < host.libraries.verbs.size(); ++i) {
    evidence += "; not used: " + describe_verbs(host.libraries.verbs[i]);
  }
  return {ok("", evidence)};
}

}  // namespace gdr::tools::doctor

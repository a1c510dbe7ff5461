#include <fmt/format.h>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"
#include "tools/doctor/nccl_settings.h"

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

}  // namespace

Check nccl_library() {
  return {.name = "nccl-library",
          .looks_at = "the copies of libnccl.so.2 that the loader and Python's packages have",
          .why =
              "Nodes whose jobs load different releases fail or hang, and old releases do not "
              "load the plugin.",
          .cost = Cost::kStops,
          .run = run_nccl_library};
}

}  // namespace gdr::tools::doctor

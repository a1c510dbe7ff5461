#include "tools/common/installed_folders.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace gdr::tools {
namespace {

namespace fs = std::filesystem;

constexpr char kBuiltLibraries[] = "../lib";
constexpr char kBuiltSofthca[] = "../softhca";
// From the installed program to the installed libraries, e.g. "../lib/x86_64-linux-gnu".
constexpr char kInstalledLibraries[] = GDR_LIBDIR_FROM_BINDIR;
constexpr char kSofthcaInLibraries[] = GDR_SOFTHCA_IN_LIBDIR;

bool holds_softhca(const std::string& folder) {
  return access((folder + "/libibverbs.so.1").c_str(), R_OK) == 0;
}

}  // namespace

std::string program_folder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return error ? std::string(".") : self.parent_path().string();
}

std::vector<std::string> library_folders(const std::string& program_folder) {
  std::vector<std::string> folders{program_folder + "/" + kBuiltLibraries};
  if (std::string(kInstalledLibraries) != kBuiltLibraries) {
    folders.push_back(program_folder + "/" + kInstalledLibraries);
  }
  return folders;
}

std::vector<std::string> softhca_candidates(const std::string& program_folder) {
  return {program_folder + "/" + kInstalledLibraries + "/" + kSofthcaInLibraries,
          program_folder + "/" + kBuiltSofthca};
}

Result<std::string> find_softhca(const std::string& program_folder) {
  std::string looked;
  for (const std::string& candidate : softhca_candidates(program_folder)) {
    if (holds_softhca(candidate)) {
      std::error_code error;
      const fs::path canonical = fs::canonical(candidate, error);
      return error ? candidate : canonical.string();
    }
    looked += (looked.empty() ? "" : " and ") + fs::path(candidate).lexically_normal().string();
  }
  return fail(
      Code::kUnsupported,
      fmt::format("the software HCA is not installed: no libibverbs.so.1 in {}. Fix: install "
                  "the package nccl-net-gdr-softhca, or in a source tree run ./run build",
                  looked));
}

namespace {

// Whether the first libibverbs.so.1 of LD_LIBRARY_PATH is the software HCA.
bool uses_softhca() {
  const char* path = std::getenv("LD_LIBRARY_PATH");
  const Result<std::string> softhca = find_softhca(program_folder());
  if (path == nullptr || !softhca) return false;
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (!holds_softhca(folder)) continue;
    std::error_code absent;
    return fs::equivalent(folder, *softhca, absent);
  }
  return false;
}

}  // namespace

std::string fix_without_device(const std::string& command, const std::string& root) {
  if (root.empty() && uses_softhca()) {
    return "the software HCA is in use, and none of its devices can be used: where a line above "
           "begins with \"softhca:\", correct SOFTHCA_CONFIG, or --config of with-softhca; "
           "otherwise NCCL_IB_HCA excludes all of them, or their ports are down";
  }
  std::error_code absent;
  const std::string sys = root + "/sys/";
  if (fs::directory_iterator(sys + "class/infiniband", absent) != fs::directory_iterator()) {
    return "nccl-gdr doctor shows why the HCAs of this machine are not used";
  }
  if (fs::exists(sys + "module/nvidia", absent) || fs::exists(sys + "module/amdgpu", absent)) {
    return "load the HCA's driver (for NVIDIA's: modprobe mlx5_ib ib_uverbs; the package rdma-core "
           "does so at boot); nccl-gdr doctor shows what is missing";
  }
  return "to try it without an HCA: nccl-gdr with-softhca nccl-gdr " + command;
}

}  // namespace gdr::tools

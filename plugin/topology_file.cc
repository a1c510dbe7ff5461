#include "plugin/topology_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>

#include "base/environment_swap.h"
#include "base/unique_fd.h"

namespace gdr::plugin {
namespace {

constexpr std::string_view kOwnFiles = "/proc/self/fd/";
constexpr char kFileName[] = "nccl-net-gdr-topology";
constexpr std::string_view kMemoryFile = "/memfd:nccl-net-gdr-topology";

Status write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_errno(Code::kSystem, "writing the topology file failed", errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

}  // namespace

Result<std::string> publish_topology(const std::string& xml) {
  UniqueFd fd(memfd_create(kFileName, MFD_CLOEXEC));
  if (fd.get() < 0)
    return fail_errno(Code::kSystem, "making a memory file for the topology failed", errno);
  if (Status status = write_all(fd.get(), xml); !status) return forward_error(status);
  std::string name = std::string(kOwnFiles) + std::to_string(fd.release());
  set_environment("NCCL_TOPO_FILE", name);
  return name;
}

bool is_dangling_topology(const std::string& file) {
  if (file.compare(0, kOwnFiles.size(), kOwnFiles) != 0) return false;
  // Another file may have that descriptor here, and must not be read: a pipe would block for ever.
  std::error_code error;
  std::string target = std::filesystem::read_symlink(file, error).string();
  return target.compare(0, kMemoryFile.size(), kMemoryFile) != 0;
}

}  // namespace gdr::plugin

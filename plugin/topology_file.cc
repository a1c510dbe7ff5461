#include "plugin/topology_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/unique_fd.h"

namespace gdr::plugin {
namespace {

constexpr std::string_view kName = "NCCL_TOPO_FILE=";
constexpr std::string_view kOwnFiles = "/proc/self/fd/";

Status write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_errno(Code::kSystem, "writing the topology failed", errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

// setenv() may free the array that another thread of the application is reading. Here it gets a new
// one, and the old one stays as it is.
void set_environment(const std::string& assignment) {
  size_t count = 0;
  while (environ[count] != nullptr) ++count;
  char** fresh = new char*[count + 2];
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    if (std::string_view(environ[i]).substr(0, kName.size()) != kName) fresh[kept++] = environ[i];
  }
  fresh[kept++] = strdup(assignment.c_str());
  fresh[kept] = nullptr;
  __atomic_store_n(&environ, fresh, __ATOMIC_RELEASE);
}

}  // namespace

Result<std::string> publish_topology(const std::string& xml) {
  UniqueFd fd(memfd_create("nccl-net-gdr-topology", MFD_CLOEXEC));
  if (fd.get() < 0) return fail_errno(Code::kSystem, "memfd_create failed", errno);
  if (Status status = write_all(fd.get(), xml); !status) return forward_error(status);
  std::string name = std::string(kOwnFiles) + std::to_string(fd.release());
  set_environment(std::string(kName) + name);
  return name;
}

bool is_dangling_topology(const std::string& file) {
  return file.compare(0, kOwnFiles.size(), kOwnFiles) == 0 && access(file.c_str(), R_OK) != 0;
}

}  // namespace gdr::plugin

#include "transport/memory/process_limits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>

#include "base/unique_fd.h"

namespace gdr::transport {
namespace {

constexpr int kCapIpcLock = 14;

// The number behind "name:", in base; 0 where there is none.
uint64_t field(const std::string& status, const std::string& name, int base) {
  std::ifstream file(status);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, name.size() + 1, name + ":") != 0) continue;
    return std::strtoull(line.c_str() + name.size() + 1, nullptr, base);
  }
  return 0;
}

}  // namespace

std::optional<uint64_t> memory_lock_limit(const std::string& status) {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  if ((field(status, "CapEff", 16) >> kCapIpcLock & 1) != 0) return {};
  return limit.rlim_cur;
}

uint64_t pinned_bytes(const std::string& status) {
  constexpr uint64_t kKibi = 1024;
  return field(status, "VmPin", 10) * kKibi;
}

bool file_descriptors_exhausted() {
  UniqueFd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return fd.get() < 0 && (errno == EMFILE || errno == ENFILE);
}

std::string kernel_release() {
  utsname name{};
  return uname(&name) == 0 ? name.release : "";
}

}  // namespace gdr::transport

#include <fmt/format.h>

#include <sstream>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"

namespace gdr::tools::doctor {
namespace {

constexpr uint64_t kEnough = uint64_t{64} << 20;  // NCCL pins about so much for each connection
constexpr char kFile[] = "/proc/self/limits";

Observations run(const Host& host) {
  std::istringstream lines(host.read(kFile).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("Max locked memory")) continue;
    std::istringstream words(line.substr(sizeof "Max locked memory"));
    std::string soft;
    words >> soft;
    if (soft == "unlimited") return {ok("", fmt::format("memlock is unlimited ({})", kFile))};
    const uint64_t bytes = std::strtoull(soft.c_str(), nullptr, 10);
    const std::string evidence = fmt::format("memlock is {} KiB ({})", bytes >> 10, kFile);
    if (bytes >= kEnough) return {ok("", evidence)};
    return {failure("", evidence, "raise it: ulimit -l unlimited")};
  }
  return {unknown("", fmt::format("{} has no line of locked memory", kFile), "mount /proc")};
}

}  // namespace

Check memory_lock() {
  return {.name = "memory-lock",
          .looks_at = "the limit of locked memory of this process",
          .why = "RDMA pins the memory that it registers, and fails with ENOMEM beyond the limit.",
          .cost = Cost::kStops,
          .run = run};
}

}  // namespace gdr::tools::doctor

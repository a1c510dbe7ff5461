#include "tools/net/net.h"

#include <fmt/format.h>

#include <atomic>
#include <iterator>

namespace gdr::tools {

std::string describe(abi::ncclResult_t result) {
  constexpr const char* kTexts[] = {"success",
                                    "unhandled CUDA error (1)",
                                    "system error (2)",
                                    "internal error (3)",
                                    "invalid argument (4)",
                                    "invalid usage (5)",
                                    "remote error (6)"};
  const auto code = static_cast<unsigned>(result);
  if (code < std::size(kTexts)) return kTexts[code];
  return fmt::format("unknown result ({})", static_cast<int>(result));
}

namespace {
std::atomic<int>& reported_version() {
  static std::atomic<int> version{23007};  // kNewestRelease of tools/prediction/settings.h
  return version;
}
}  // namespace

void report_nccl_version(int version) { reported_version() = version; }

}  // namespace gdr::tools

extern "C" __attribute__((visibility("default"))) int ncclGetVersion(int* version) {
  *version = gdr::tools::reported_version();
  return 0;
}

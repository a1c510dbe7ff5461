#include "tools/net/nccl_version.h"

#include <atomic>

namespace gdr::tools {
namespace {

std::atomic<int>& reported_version() {
  static std::atomic<int> version{23007};  // kNewestRelease of tools/prediction/release.h
  return version;
}

}  // namespace

void report_nccl_version(int version) { reported_version() = version; }

}  // namespace gdr::tools

extern "C" __attribute__((visibility("default"))) int ncclGetVersion(int* version) {
  *version = gdr::tools::reported_version();
  return 0;
}

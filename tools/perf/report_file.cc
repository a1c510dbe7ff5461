#include "tools/perf/report_file.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <fstream>

namespace gdr::tools {

Result<ReportFile> ReportFile::create() {
  UniqueFd fd(memfd_create("nccl-gdr-report", MFD_CLOEXEC));
  if (!fd.valid()) return fail_errno(Code::kSystem, "memfd_create failed", errno);
  return ReportFile(std::move(fd));
}

std::string ReportFile::name() const { return fmt::format("/proc/self/fd/{}", fd_.get()); }

nlohmann::json ReportFile::read() const {
  std::ifstream in(name());
  nlohmann::json report = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  return report.is_discarded() ? nlohmann::json() : report;
}

}  // namespace gdr::tools

// The report of one run of ranks, handed to the process that forked them: a file in memory, under a
// name that forked ranks can open. It leaves nothing behind, however they end.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace gdr::tools {

class ReportFile {
 public:
  static Result<ReportFile> create();

  // For write_json().
  std::string name() const;
  // null where no rank wrote one to its end.
  nlohmann::json read() const;

 private:
  explicit ReportFile(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace gdr::tools

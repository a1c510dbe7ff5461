// Which program wrote a topology file.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace gdr::tools {

enum class FileFormat { kHwloc, kNccl };

// By the root element. The error names the formats, and how to make such a file.
Result<FileFormat> file_format(std::string_view text);
Result<FileFormat> file_format_of(const std::string& file);

}  // namespace gdr::tools

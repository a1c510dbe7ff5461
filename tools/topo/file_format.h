// Recognises by its contents which program wrote a topology file.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace gdr::tools::topo {

enum class FileFormat {
  kHwloc,      // <topology>, as `lstopo file.xml` writes it
  kNccl,       // <system>, as NCCL writes it with NCCL_TOPO_DUMP_FILE
  kNvidiaSmi,  // the text of `nvidia-smi topo -m`
};

// Returns the format by the name of the root element, or by the line of text that names the
// columns, which the text or file has within its first MiB. The error is InvalidUsage; it names all
// formats and the programs that write them, or for JSON the options that take it.
Result<FileFormat> file_format(std::string_view text);
Result<FileFormat> file_format_of(const std::string& file);

}  // namespace gdr::tools::topo

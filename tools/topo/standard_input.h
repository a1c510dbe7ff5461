#pragma once

#include "base/result.h"

namespace gdr::tools::topo {

// The name under which files are read from standard input, "-" on the command line.
inline constexpr char kStandardInput[] = "/dev/stdin";

// Puts a copy in memory in place of a pipe on standard input, so that kStandardInput can be opened
// and read more than once: to recognise the format, then to read the machine. Leaves files as they
// are. Fails with kInvalidArgument where it cannot be read or is larger than 64 MiB.
Status make_standard_input_rereadable();

}  // namespace gdr::tools::topo

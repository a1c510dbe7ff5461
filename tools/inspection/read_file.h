// A machine from a file of any format, or from a folder of hwloc-gather-topology.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "topology/live/read_machine.h"
#include "topology/model.h"
#include "topology/sources/selection.h"

namespace gdr::tools::topo {

enum class FileFormat {
  kHwloc,      // <topology>, as `lstopo file.xml` writes it
  kNccl,       // <system>, as NCCL writes it with NCCL_TOPO_DUMP_FILE
  kNvidiaSmi,  // the text of `nvidia-smi topo -m`
};

// Returns the format by the name of the root element, or by the line of text that names the
// columns, which the text or file has within its first MiB. The error is InvalidUsage; it names the
// formats and the programs that write them, that of nvidia-smi only with `takes_smi`, or for JSON
// the options that take it.
Result<FileFormat> file_format(std::string_view text, bool takes_smi = true);
Result<FileFormat> file_format_of(const std::string& file, bool takes_smi = true);

// Reads the machine of a file. `host` is as InspectOptions::host. Fails with
// kInvalidUsage where the file does not have that host.
Result<topology::Machine> read_file(const std::string& file, topology::Selection selection,
                                    const std::optional<std::string>& host);

// Reads a folder with the /sys and /proc of another machine, as hwloc-gather-topology packs them.
// Fails with kInvalidUsage where it is another folder. Sets HWLOC_FSROOT for the while.
Result<topology::Machine> read_gathered(const std::string& folder,
                                        const topology::Selection& selection);

// Reads the folder's machine with the topology file of NCCL that its jobs use: the file places
// devices, the folder names HCAs and their ports. Without a file that can be read, as
// read_gathered().
Result<topology::Machine> read_gathered_with_file(const std::string& folder,
                                                  topology::ReadOptions options);

}  // namespace gdr::tools::topo

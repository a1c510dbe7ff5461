// What NCCL's own parser makes of a topology file. It is far stricter than XML: it refuses much
// that every XML library takes, and communicators fail where it refuses NCCL_TOPO_FILE; it also
// ignores some of what it reads, without a message.
//
// The rules are those of xmlGetChar() to ncclTopoXmlLoadSystem() in NCCL's src/graph/xml.cc, 2.20
// to 2.30. Where releases differ, the strictest counts.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/finding.h"

namespace gdr::topology {

// How many are reported of one file, since each costs a look at all of it.
inline constexpr size_t kMostNcclDiagnostics = 100;

// A place where NCCL does not read what an XML library reads.
struct NcclDiagnostic {
  bool refused = false;  // NCCL stops there and fails; else it reads on, and ignores something
  int line = 0;          // from 1
  std::string text;      // "a tab, where NCCL expects the next element"
  std::string fix;
};

// Returns the diagnostics on the text of a file. Only the last can say that NCCL refuses it.
std::vector<NcclDiagnostic> nccl_diagnostics(std::string_view text);

// Returns them as findings, those of one text as one, with the file and line in front.
Findings nccl_findings(const std::string& file, const std::vector<NcclDiagnostic>& diagnostics);

}  // namespace gdr::topology

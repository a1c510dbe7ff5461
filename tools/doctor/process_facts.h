// Limits and capabilities of this process.
#pragma once

namespace gdr::tools::doctor {

struct Host;

struct ProcessFacts {};

// Reads them; `host` has its root, environment and topology already.
ProcessFacts read_process_facts(const Host& host);

}  // namespace gdr::tools::doctor

// The libraries as the loader finds them.
#pragma once

namespace gdr::tools::doctor {

struct Host;

struct LibraryFacts {};

// Reads them; `host` has its root, environment and topology already.
LibraryFacts read_library_facts(const Host& host);

}  // namespace gdr::tools::doctor

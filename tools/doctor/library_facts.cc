#include "tools/doctor/library_facts.h"

#include "tools/doctor/host.h"

namespace gdr::tools::doctor {

LibraryFacts read_library_facts(const Host&) { return {}; }

}  // namespace gdr::tools::doctor

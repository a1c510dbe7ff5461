#include "tools/doctor/process_facts.h"

#include "tools/doctor/host.h"

namespace gdr::tools::doctor {

ProcessFacts read_process_facts(const Host&) { return {}; }

}  // namespace gdr::tools::doctor

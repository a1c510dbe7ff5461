#include "tools/doctor/gpu_facts.h"

#include "tools/doctor/host.h"

namespace gdr::tools::doctor {

GpuFacts read_gpu_facts(const Host&) { return {}; }

}  // namespace gdr::tools::doctor

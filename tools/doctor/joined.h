// Several devices with one and the same result, in one observation.
#pragma once

#include "tools/doctor/check.h"

namespace gdr::tools::doctor {

// Joins observations that differ in nothing but the subject, in the order of the first of each:
// "GPU0 (0000:1a:00.0), GPU1 (0000:3b:00.0)". Steps are those of all of them, each command once.
Observations with_joined_subjects(Observations observations);

}  // namespace gdr::tools::doctor

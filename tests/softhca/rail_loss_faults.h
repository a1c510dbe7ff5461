// Which faults a run of rail_loss meets, and what may become of it.
#pragma once

#include "tests/softhca/rail_loss_scenario.h"

namespace gdr::rail_loss {

// Every `kind` of a scenario.
std::vector<std::string> all_kinds();

// Chooses `kind`, `faults`, `expect`, `reasons` and whatever of the configuration these need.
void choose_faults(Random& random, Scenario* scenario);

}  // namespace gdr::rail_loss

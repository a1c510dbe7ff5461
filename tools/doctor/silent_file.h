// What a check says of a file with a topology in which it finds nothing wrong: that all is well, or
// that the file does not show what it looks at.
#pragma once

#include "tools/doctor/check.h"

namespace gdr::tools::doctor::silent_file {

// The file shows all that the check looks at.
Observation is_good(const Host& host);

Observation of_pcie_links(const Host& host);
Observation of_nvlinks(const Host& host);
Observation of_rails(const Host& host);
Observation of_registration(const Host& host);
Observation of_port_states(const Host& host);
Observation of_port_rates(const Host& host);
Observation of_link_layers(const Host& host);
Observation of_filters(const Host& host);

}  // namespace gdr::tools::doctor::silent_file

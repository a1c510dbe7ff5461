// What the user chose through the process environment, as one struct. load.h fills it, once, at
// init.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>

#include "plugin/config/socket_interface.h"
#include "plugin/discovery/hca_filter.h"
#include "topology/gdr_level.h"
#include "topology/rail_map.h"
#include "transport/device/gid_selection.h"
#include "transport/device/registration_paths.h"

namespace gdr::config {

// One field for each row of options.def, which documents its meaning, unit and range. A field is
// always within its row's range. Example: options.ack_timeout is NCCL_IB_TIMEOUT, 20 by default.
struct Options {
#define GDR_GROUP(...)
#define GDR_INTEGER(field, name, fallback, ...) int field = fallback;
#define GDR_BOOLEAN(field, name, fallback, ...) bool field = fallback;
#define GDR_FAMILY(field, name, fallback, ...) int field = fallback;
#define GDR_PARSED(type, field, ...) type field{};
#define GDR_TEXT(field, ...) std::string field;
#include "plugin/config/options.def"
};

}  // namespace gdr::config

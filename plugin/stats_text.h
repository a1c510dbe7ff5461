// The plugin's counters as metrics: the text exposition format of Prometheus, version 0.0.4, as
// node_exporter's textfile collector reads it. docs/metrics.md explains each metric.
#pragma once

#include <string>

#include "transport/transport.h"

namespace gdr::plugin {

// Returns the whole file: for each metric a HELP line, a TYPE line and its series. Each series has
// the number of the process (StatsFile), so that those of several processes differ.
std::string stats_text(const transport::TransportStats& stats, int number);

}  // namespace gdr::plugin

// The plugin's counters as metrics: the text exposition format of Prometheus, version 0.0.4, as
// node_exporter's textfile collector reads it. docs/metrics.md explains each metric.
#pragma once

#include <cstdint>
#include <string>

#include "transport/transport.h"

namespace gdr::plugin {

// Which process the counters are of.
struct StatsProcess {
  int number = 0;  // of StatsFile: each series has it, so that those of several processes differ
  int64_t pid = 0;
};

// Returns the whole file: for each metric a HELP line, a TYPE line and its series.
std::string stats_text(const transport::TransportStats& stats, const StatsProcess& process);

}  // namespace gdr::plugin

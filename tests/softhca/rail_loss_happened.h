// Which faults of a run have happened, and in which phase of the protocol: read from what the
// software HCA prints into the log of an end ("report_faults" of softhca/README.md).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace gdr::rail_loss {

// What an end writes into its log once its connections are made.
constexpr const char* kConnectedNote = "connected";
// And when its pause is over.
constexpr const char* kPauseNote = "the pause is over";

// A list of [kind, phase, whether after the pause], in the order in which they happened.
nlohmann::json read_happened(const std::string& log_file);

}  // namespace gdr::rail_loss

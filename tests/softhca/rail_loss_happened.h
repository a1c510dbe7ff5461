// Which faults of a run have happened, and in which phase of the protocol: read from what the
// software HCA prints into the log of an end ("report_faults" of softhca/README.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gdr::rail_loss {

// Where the connection was when a fault happened. At a request, its work id and moment decide.
enum class Phase : uint8_t {
  kConnect,       // the connections were being made
  kClearToSend,   // a write of slots
  kData,          // a write of a chunk's data, of which nothing had arrived
  kEndOfMessage,  // the data of a chunk was there, and its immediate was not
  kCompletion,    // of a chunk: the receiver had its completion, the sender at most
  kFlush,         // the read that follows data in GPU memory
  kProbe,         // a probe or a statement, of a standby rail or while a loss was being recovered
  kBetween,       // at no request: when an end had completed some messages
};
constexpr std::array<const char*, 8> kPhaseNames{"connect",    "clear-to-send", "data",  "end",
                                                 "completion", "flush",         "probe", "between"};

struct HappenedFault {
  std::string kind;  // as in the configuration
  Phase phase;
  bool after_pause;  // of a run that pauses
};

// "port_down (data), ack_lost (completion)"; "none".
std::string to_string(const std::vector<HappenedFault>& happened);

// What an end writes into its log once its connections are made.
constexpr const char* kConnectedNote = "connected";
// And when its pause is over.
constexpr const char* kPauseNote = "the pause is over";

// In the order in which they happened.
std::vector<HappenedFault> read_happened(const std::string& log_file);

}  // namespace gdr::rail_loss

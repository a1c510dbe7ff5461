#include "tests/softhca/rail_loss_happened.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "transport/data/work_id.h"

namespace gdr::rail_loss {
namespace {

using nlohmann::json;
using transport::WorkKind;

Phase phase_of_chunk(const std::string& opcode, const std::string& moment) {
  if (moment == "begun") return Phase::kData;
  // With adaptive routing the data is a write of its own, before the one with the immediate.
  if (moment == "arrived" || opcode == "write") return Phase::kEndOfMessage;
  return Phase::kCompletion;
}

Phase phase_of(const json& fault, bool connected) {
  if (!fault.contains("wr_id")) return connected ? Phase::kBetween : Phase::kConnect;
  switch (transport::decode_work_id(fault["wr_id"].get<uint64_t>()).kind) {
    case WorkKind::kChunk:
      return phase_of_chunk(fault["opcode"], fault["moment"]);
    case WorkKind::kClearToSend:
      return Phase::kClearToSend;
    case WorkKind::kFlush:
      return Phase::kFlush;
    case WorkKind::kProbe:
    case WorkKind::kStatement:
    case WorkKind::kReceive:
      break;
  }
  return Phase::kProbe;
}

}  // namespace

std::string to_string(const std::vector<HappenedFault>& happened) {
  std::string text;
  for (const HappenedFault& fault : happened) {
    text += (text.empty() ? "" : ", ") + fault.kind + " (" +
            kPhaseNames[static_cast<size_t>(fault.phase)] + ")";
  }
  return text.empty() ? "none" : text;
}

std::vector<HappenedFault> read_happened(const std::string& log_file) {
  const std::string begin = "softhca: fault happens: ";
  std::vector<HappenedFault> happened;
  bool connected = false, paused = false;
  std::ifstream file(log_file);
  for (std::string line; std::getline(file, line);) {
    connected = connected || line.ends_with(std::string(" ") + kConnectedNote);
    paused = paused || line.ends_with(kPauseNote);
    if (!line.starts_with(begin)) continue;
    const json fault = json::parse(line.substr(begin.size()), nullptr, false);
    if (!fault.is_object()) continue;
    happened.push_back({fault["kind"], phase_of(fault, connected), paused});
  }
  return happened;
}

}  // namespace gdr::rail_loss

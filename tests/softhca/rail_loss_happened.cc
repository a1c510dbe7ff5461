#include "tests/softhca/rail_loss_happened.h"

#include <fstream>

#include "transport/pairs/work_id.h"

namespace gdr::rail_loss {
namespace {

using nlohmann::json;
using transport::WorkKind;

const char* phase_of_chunk(const std::string& opcode, const std::string& moment) {
  if (moment == "begun") return "data";  // of which nothing had arrived
  // The data of the chunk was there, and its immediate was not. With adaptive routing the data is a
  // write of its own, before the one with the immediate.
  if (moment == "arrived" || opcode == "write") return "end";
  return "completion";  // the receiver had it, the sender at most
}

// Where the connection was when a fault happened. At a request, its work id and moment decide.
const char* phase_of(const json& fault, bool connected) {
  // At no request: when an end had completed some messages.
  if (!fault.contains("wr_id")) return connected ? "between" : "connect";
  switch (transport::decode_work_id(fault["wr_id"].get<uint64_t>()).kind) {
    case WorkKind::kChunk:
      return phase_of_chunk(fault["opcode"], fault["moment"]);
    case WorkKind::kClearToSend:
      return "clear-to-send";
    case WorkKind::kFlush:
      return "flush";
    case WorkKind::kProbe:
    case WorkKind::kStatement:
    case WorkKind::kReceive:
      break;
  }
  return "probe";
}

}  // namespace

json read_happened(const std::string& log_file) {
  const std::string begin = "softhca: fault happens: ";
  json happened = json::array();
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

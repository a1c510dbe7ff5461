// The frames that the ranks of a run exchange with its root over TCP. Integers have the native byte
// order, because all machines of a run have the same architecture.
//
// A rank's first frame is a Hello; each later one is its contribution to the next allgather. The
// root answers a round with one frame: kGathered and every rank's bytes, in rank order, as a
// MessagePack array of strings, or kAbandoned and a text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace gdr::tools {

inline constexpr uint32_t kControlMagic = 0x4e475032;  // "NGP2"
inline constexpr uint32_t kMaxFrameBytes = 64u << 20;

struct Hello {
  uint32_t magic = kControlMagic;
  uint32_t rank = 0;
  uint32_t nranks = 0;
  uint32_t run = 0;
};

enum class Answer : char { kGathered = 'g', kAbandoned = 'a' };

// Returns a frame as it is sent: the length of the payload (uint32_t) and its bytes.
inline std::string make_frame(std::string_view payload) {
  auto length = static_cast<uint32_t>(payload.size());
  std::string out(reinterpret_cast<const char*>(&length), sizeof(length));
  return out.append(payload);
}

// Returns the payload of a kGathered answer.
inline std::string make_gathered(const std::vector<std::string>& parts) {
  std::string out(1, static_cast<char>(Answer::kGathered));
  nlohmann::json::to_msgpack(parts, out);
  return out;
}

// Parses a kGathered answer. Returns false for any other payload.
inline bool parse_gathered(std::string_view payload, size_t nranks,
                           std::vector<std::string>* parts) {
  if (!payload.starts_with(static_cast<char>(Answer::kGathered))) return false;
  payload.remove_prefix(1);
  const auto parsed = nlohmann::json::from_msgpack(payload, /*strict=*/true,
                                                   /*allow_exceptions=*/false);
  auto is_text = [](const nlohmann::json& part) { return part.is_string(); };
  if (!parsed.is_array() || parsed.size() != nranks || !std::ranges::all_of(parsed, is_text)) {
    return false;
  }
  *parts = parsed.get<std::vector<std::string>>();
  return true;
}

}  // namespace gdr::tools

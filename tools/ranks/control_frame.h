// The frames that the ranks of a run exchange with its root over TCP. Integers have the native byte
// order, because all machines of a run have the same architecture.
//
// A rank's first frame is a Hello; each later one is its contribution to the next allgather. The
// root answers a round with one frame: kGathered and every rank's length and bytes, in rank order,
// or kAbandoned and a text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gdr::tools {

inline constexpr uint32_t kControlMagic = 0x4e475031;  // "NGP1"
inline constexpr uint32_t kMaxFrameBytes = 64u << 20;

struct Hello {
  uint32_t magic = kControlMagic;
  uint32_t rank = 0;
  uint32_t nranks = 0;
};

enum class Answer : char { kGathered = 'g', kAbandoned = 'a' };

// Returns a frame as it is sent: the length of the payload (uint32_t) and its bytes.
std::string make_frame(std::string_view payload);

// Returns the payload of a kGathered answer.
std::string make_gathered(const std::vector<std::string>& parts);

// Parses a kGathered answer. Returns false for any other payload.
bool parse_gathered(std::string_view payload, size_t nranks, std::vector<std::string>* parts);

}  // namespace gdr::tools

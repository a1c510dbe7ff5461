#include "transport/select/memory_ways.h"

namespace gdr {
namespace {

bool* member(MemoryWays& ways, std::string_view name) {
  if (name == "dmabuf") return &ways.dmabuf;
  if (name == "peermem") return &ways.peermem;
  if (name == "staging") return &ways.staging;
  return nullptr;
}

}  // namespace

const char* name_of(MemoryWay way) {
  switch (way) {
    case MemoryWay::kDmaBuf:
      return "dma-buf";
    case MemoryWay::kPeermem:
      return "nvidia-peermem";
    case MemoryWay::kStaging:
      break;
  }
  return "staging";
}

Result<MemoryWays> MemoryWays::parse(std::string_view text) {
  MemoryWays ways{false, false, false};
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = text.find(',', begin);
    if (end == std::string_view::npos) end = text.size();
    std::string_view name = text.substr(begin, end - begin);
    bool* way = member(ways, name);
    if (way == nullptr) {
      return fail(Code::kInvalidArgument,
                  "'" + std::string(name) + "' is neither dmabuf, peermem nor staging");
    }
    *way = true;
    begin = end + 1;
  }
  return ways;
}

std::string MemoryWays::to_string() const {
  std::string text;
  if (dmabuf) text += ",dmabuf";
  if (peermem) text += ",peermem";
  if (staging) text += ",staging";
  return text.substr(1);
}

}  // namespace gdr

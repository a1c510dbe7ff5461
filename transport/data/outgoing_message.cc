#include "transport/data/outgoing_message.h"

namespace gdr::transport {

std::string too_large_text(size_t bytes, size_t max_write_bytes, size_t most) {
  return "a send of " + std::to_string(bytes) + " bytes takes too many writes of " +
         std::to_string(max_write_bytes) + " bytes, the port's largest message; the limit is " +
         std::to_string(most) + " writes. Fix: set NCCL_BUFFSIZE lower, or use another HCA";
}

}  // namespace gdr::transport

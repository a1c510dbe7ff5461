// "at_request" of the configuration: the event of the protocol at which a fault happens.
#pragma once

#include <cstdint>
#include <string>

#include "softhca/model/event_trigger.h"
#include "softhca/model/json_fields.h"

namespace softhca {

struct EventConfig {
  uint32_t opcodes = UINT32_MAX;  // bit 1 << ibv_wr_opcode for each that counts
  uint64_t nth = 1;
  Moment moment = Moment::kBegun;
  End end = End::kRequester;  // which end of the requests the port is
  std::string device;         // empty: that of the fault
  uint32_t port = 0;          // 0: that of the fault
};

// Reads the object "at_request". `path` is that of the object.
gdr::Status read_event(const Json& json, const std::string& path, EventConfig* event);

}  // namespace softhca

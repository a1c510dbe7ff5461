#include "transport/device/port_states.h"

#include "transport/device/port.h"

namespace gdr::transport {

bool PortStates::is_active(int port, Time now) {
  const uint64_t generation = generation_.load();  // before the query
  {
    std::lock_guard lock(mutex_);
    const auto known = answers_.find(port);
    if (known != answers_.end() && known->second.generation == generation &&
        now < known->second.at + kFresh) {
      return known->second.active;
    }
  }
  const Result<PortState> state = query_port_state(api_, context_, port);
  const bool active = state && state->active;
  std::lock_guard lock(mutex_);
  answers_[port] = {generation, now, active};
  return active;
}

}  // namespace gdr::transport

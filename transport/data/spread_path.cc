#include "transport/data/spread_path.h"

#include <bit>
#include <limits>

#include "transport/pairs/rail_set.h"

namespace gdr::transport {

SpreadPath::SpreadPath(const RailSet& rails)
    : quiet_polls_(rails.size() > 1 ? kPollsPerLookAtAll - 1
                                    : std::numeric_limits<int32_t>::max()) {
  uint32_t active = 0;  // bit per rail
  for (size_t i = 0; i < rails.pair_count(); ++i) {
    if (!rails.pair(i).standby) active |= 1u << rails.pair(i).rail;
  }
  if (std::has_single_bit(active)) {
    quiet_cq_ = rails[static_cast<size_t>(std::countr_zero(active))].cq();
  }
}

}  // namespace gdr::transport

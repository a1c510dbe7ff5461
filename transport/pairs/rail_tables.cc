#include "transport/pairs/rail_tables.h"

#include <cstddef>
#include <utility>

namespace gdr::transport {

Result<RailTables> RailTables::create(const RailSet& rails, bool statements, size_t* failed_rail) {
  RailTables tables;
  const size_t pairs = rails.pair_count() * sizeof(wire::PairStatements);
  const size_t bytes =
      statements ? offsetof(wire::Tables, pairs) + pairs : offsetof(wire::Tables, scratch);
  tables.memory_ = map_pages<wire::Tables>(bytes);
  for (size_t rail = 0; rail < rails.size(); ++rail) {
    Result<verbs::UniqueMr> mr =
        register_block(*rails[rail].device().hca, tables.memory_.get(), bytes);
    if (!mr && failed_rail != nullptr) *failed_rail = rail;
    if (!mr) return forward_error(mr);
    tables.lkeys_[rail] = (*mr)->lkey;
    tables.registrations_.push_back(std::move(*mr));
  }
  return tables;
}

void RailTables::describe(wire::EndPoint* end) const {
  end->tables_address = reinterpret_cast<uint64_t>(memory_.get());
  for (size_t rail = 0; rail < registrations_.size(); ++rail) {
    end->rail[rail].tables_rkey = registrations_[rail]->rkey;
  }
}

}  // namespace gdr::transport

#include "transport/data/rail_tables.h"

#include <utility>

namespace gdr::transport {

Result<RailTables> RailTables::create(const RailSet& rails, size_t* failed_rail) {
  RailTables tables;
  tables.memory_.reset(static_cast<wire::Tables*>(allocate_pages(sizeof(wire::Tables))));
  for (size_t rail = 0; rail < rails.size(); ++rail) {
    Result<verbs::UniqueMr> mr =
        register_block(*rails[rail].device().hca, tables.memory_.get(), sizeof(wire::Tables));
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

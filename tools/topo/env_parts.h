// The parts that env_lines() combines, each lines for a shell; "" where there is nothing to say.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/topo/inspection.h"
#include "tools/topo/labels.h"

namespace gdr::tools::topo {

// Fails where no HCA has a name: NCCL_IB_HCA and rail maps name HCAs as verbs does.
Status check_names(const Machine& machine);

// Says that a variable cannot be set where a rail's HCA has no name; "" where all have.
std::string nameless_line(const RailDecision& decision, const char* name);

// Returns the rails that NCCL_IB_HCA can name.
std::vector<Rail> rdma_rails(const RailDecision& decision);

// NCCL_IB_HCA with the rails; has_list: the user's list is to be repeated.
std::string hca_lines(const RailDecision& decision, bool has_list);

// NCCL_NET_GDR_C2C and NCCL_NET_GDR_LEVEL. Changes `decision` to what the lines make of it.
std::string level_lines(const Inspection& inspection, RailDecision* decision);

// The user's rail map.
std::string map_lines(const Inspection& inspection, const UserSetting& map);

// What makes NCCL follow the rails, where it would use worse HCAs; with a map, which overrides
// distance, others. Changes `decision` to what the lines make of it.
std::string remedy_lines(bool has_map, RailDecision* decision);

}  // namespace gdr::tools::topo

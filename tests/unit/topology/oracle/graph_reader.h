// Builds NCCL's graph from the tree of a topology file.
#pragma once

#include <pugixml.hpp>

#include "tests/unit/topology/oracle/node_graph.h"
#include "tests/unit/topology/oracle/release_rules.h"

namespace gdr::topology::oracle {

// Throws Failure where NCCL of that release would fail.
NodeGraph build_graph(const pugi::xml_document& tree, const ReleaseRules& rules);

}  // namespace gdr::topology::oracle

// Builds NCCL's graph from the tree of a topology file.
#pragma once

#include <pugixml.hpp>

#include "tests/unit/tools/prediction/oracle/node_graph.h"
#include "tests/unit/tools/prediction/oracle/release_rules.h"

namespace gdr::topology::oracle {

// Throws Failure where NCCL of that release would fail.
NodeGraph build_graph(const pugi::xml_document& tree, const ReleaseRules& rules);

}  // namespace gdr::topology::oracle

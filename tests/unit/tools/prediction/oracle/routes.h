// NCCL's search for routes in its graph.
#pragma once

#include "tests/unit/tools/prediction/oracle/node_graph.h"
#include "tests/unit/tools/prediction/oracle/release_rules.h"

namespace gdr::topology::oracle {

// Computes the routes from everywhere to the node.
void find_routes_to(NodeGraph* graph, Ref base, const ReleaseRules& rules, bool nvb_disable);

// Leads the route from `from` to `to` over `over`.
void divert(NodeGraph* graph, Ref from, Ref over, Ref to, const ReleaseRules& rules);

// Returns the place of a class in the order of the release: smaller is nearer.
int rank_of(int type, const ReleaseRules& rules);

// Returns the class of two routes in a row.
int joined_class(int a, int b, const ReleaseRules& rules);

inline Path& route(NodeGraph* graph, Ref from, Ref to) {
  return graph->at(from).paths[static_cast<size_t>(to.kind)].at(to.index);
}

}  // namespace gdr::topology::oracle

// Which HCA each GPU uses. Rail i is the same HCA port on all machines of a kind, whatever a
// process of it may see, because only the machine's own shape decides.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/path_class.h"
#include "topology/rail_map.h"

namespace gdr::topology {

struct PortRef {
  int hca = 0;   // index in Machine::hcas
  int port = 0;  // index in its ports
  auto operator<=>(const PortRef&) const = default;
};

struct Rail {
  int id = 0;  // its number; position in RailPlan::rails unless the user numbered rails
  PortRef port;
  bool usable = true;  // else no GPU is assigned to it, and its number stays free
  std::string why_not;
};

// An HCA port that is no compute rail.
struct ExcludedPort {
  PortRef port;
  std::string reason;  // "no GPU is nearest to it: ..."
};

struct GpuRails {
  std::vector<int> rails;  // positions in RailPlan::rails, the GPU's own first; empty: none usable
  PathClass path = PathClass::kSys;  // to its own rail
};

struct RailPlan {
  std::vector<Rail> rails;  // in order of their numbers
  std::vector<ExcludedPort> others;
  std::vector<GpuRails> gpus;  // parallel to Machine::gpus
};

// A port that the user named: it is a rail whatever its speed and place.
struct NamedPort {
  std::string hca;
  int port = -1;  // -1: all
  int rail = -1;  // -1: no number given
};

struct RailOptions {
  std::vector<NamedPort> named;
  std::optional<RailMap> map;
};

// Fails only where options.map does not fit the machine; the text names what does.
Result<RailPlan> plan_rails(const Machine& machine, const PathTable& paths,
                            const RailOptions& options);

// The rail of a port, as a position in RailPlan::rails; -1: none.
int rail_of(const RailPlan& plan, PortRef port);

// Sets the path of every GPU to its own rail.
void set_own_paths(const PathTable& paths, RailPlan* plan);

// "mlx5_0", or "mlx5_0:2" where the HCA has several ports.
std::string port_name(const Machine& machine, PortRef port);
// "mlx5_0:1" always.
std::string port_label(const Machine& machine, PortRef port);

}  // namespace gdr::topology

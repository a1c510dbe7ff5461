#include "tools/topo/nodes.h"

#include <unistd.h>

#include <array>
#include <filesystem>
#include <map>

#include "tools/topo/inspect.h"
#include "tools/topo/labels.h"

namespace gdr::tools::topo {
namespace {

namespace fs = std::filesystem;

std::string own_host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Returns "node17" for "captures/node17.xml".
std::string name_of_source(const std::string& source) {
  if (source == "live") return own_host_name().empty() ? "live" : own_host_name();
  fs::path path(source);
  if (path.filename().empty()) path = path.parent_path();
  const std::string stem = path.stem().string();
  return clean_text(stem.empty() ? source : stem);
}

// Appends what distinguishes nodes of one name: their source, then a number.
void make_names_unique(const std::vector<std::string>& sources, std::vector<Node>* nodes) {
  std::map<std::string, int> uses;
  for (const Node& node : *nodes) ++uses[node.name];
  for (size_t i = 0; i < nodes->size(); ++i) {
    if (uses[(*nodes)[i].name] > 1) (*nodes)[i].name += " (" + clean_text(sources[i]) + ")";
  }
  std::map<std::string, int> seen;
  for (Node& node : *nodes) {
    const int number = ++seen[node.name];
    if (number > 1) node.name += " #" + std::to_string(number);
  }
}

// Inspects the host that the options choose, or all of them.
std::vector<Result<Inspection>> inspect_hosts(InspectOptions options, const std::string& source) {
  options.from = source;
  const bool all = options.host == kAllHosts;
  if (all) options.host = "0";
  std::vector<Result<Inspection>> inspections;
  inspections.push_back(inspect(options));
  if (!all || !inspections[0]) return inspections;
  const int hosts = inspections[0]->decision.machine.hosts;
  for (int host = 1; host < hosts; ++host) {
    options.host = std::to_string(host);
    inspections.push_back(inspect(options));
  }
  return inspections;
}

}  // namespace

std::vector<Node> read_nodes(const InspectOptions& options,
                             const std::vector<std::string>& sources) {
  std::vector<Node> nodes;
  std::vector<std::string> sources_of_nodes;
  for (const std::string& source : sources) {
    for (Result<Inspection>& inspection : inspect_hosts(options, source)) {
      const std::string host = inspection ? clean_text(inspection->decision.machine.host) : "";
      nodes.push_back({host.empty() ? name_of_source(source) : host, std::move(inspection)});
      sources_of_nodes.push_back(source);
    }
  }
  make_names_unique(sources_of_nodes, &nodes);
  return nodes;
}

}  // namespace gdr::tools::topo

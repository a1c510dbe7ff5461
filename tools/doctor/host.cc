#include "tools/doctor/host.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "tools/topo/inspect.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;

// The environment of this process counts for the machine that it runs on, the files for any.
void read_environment(Host* host) {
  if (host->is_live) {
    host->environment = config::process_environment_with_nccl_conf(&host->conf_places);
    return;
  }
  config::add_nccl_conf(host->path("/etc/nccl.conf").string(), &host->environment,
                        &host->conf_places);
}

void inspect_topology(Host* host) {
  topo::InspectOptions options;
  if (!host->is_live) options.from = host->root.string();
  Result<topo::Inspection> found = topo::inspect(options);
  if (!found) {
    host->inspection_error = found.error().text;
    return;
  }
  if (!found->sysfs_root.empty()) {
    host->pci_states = topo::read_pci_states(found->decision.machine, found->sysfs_root);
  }
  host->inspection = std::move(*found);
}

}  // namespace

fs::path Host::path(const std::string& absolute) const {
  return root / fs::path(absolute).relative_path();
}

std::optional<std::string> Host::read(const std::string& absolute) const {
  std::ifstream stream(path(absolute), std::ios::binary);
  if (!stream.is_open()) return {};
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (stream.bad()) return {};
  return text;
}

std::string Host::line(const std::string& absolute) const {
  const std::optional<std::string> text = read(absolute);
  if (!text.has_value()) return "";
  const std::string first = text->substr(0, text->find('\n'));
  const size_t from = first.find_first_not_of(" \t\r");
  if (from == std::string::npos) return "";
  return first.substr(from, first.find_last_not_of(" \t\r") + 1 - from);
}

Result<Host> read_host(const fs::path& root) {
  std::error_code ignored;
  if (!fs::is_directory(root, ignored)) {
    return fail(Code::kInvalidArgument, "there is no folder " + root.string());
  }
  Host host;
  host.root = root;
  host.is_live = root == "/";
  read_environment(&host);
  inspect_topology(&host);
  host.gpus = read_gpu_facts(host);
  host.ports = read_rdma_ports(host);
  host.process = read_process_facts(host);
  host.libraries = read_library_facts(host);
  return host;
}

}  // namespace gdr::tools::doctor

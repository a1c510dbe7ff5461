#include "tools/doctor/facts/host.h"

#include <algorithm>
#include <sstream>
#include <system_error>
#include <utility>

#include "tools/inspection/file_content.h"
#include "tools/inspection/inspection.h"
#include "tools/inspection/labels.h"
#include "tools/inspection/read_file.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;

// The environment of this process counts for the machine that it runs on and for a file, NCCL's
// files for any.
void read_environment(Host* host) {
  if (host->is_live || !host->file.empty()) {
    host->environment = config::process_environment_with_nccl_conf(&host->conf_places);
    return;
  }
  config::add_nccl_conf(host->path("/etc/nccl.conf").string(), &host->environment,
                        &host->conf_places);
}

void inspect_topology(Host* host) {
  topo::InspectOptions options;
  if (!host->is_live) {
    options.from = host->root.string();
    options.sources = topo::SettingSources{{}, host->environment, host->conf_places};
  }
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

// Whether the folder's entries can be listed, of which it may have none.
bool is_listable(const fs::path& folder) {
  std::error_code error;
  const fs::directory_iterator first(folder, error);
  return !error;
}

}  // namespace

fs::path Host::path(const std::string& absolute) const {
  return root / fs::path(absolute).relative_path();
}

bool Host::exists(const std::string& absolute) const {
  std::error_code unreadable;
  return fs::exists(path(absolute), unreadable);
}

std::optional<std::string> Host::read(const std::string& absolute) const {
  return topo::file_content(path(absolute));
}

std::string Host::line(const std::string& absolute) const {
  const std::optional<std::string> text = read(absolute);
  if (!text.has_value()) return "";
  const std::string first = text->substr(0, text->find('\n'));
  const size_t from = first.find_first_not_of(" \t\r");
  if (from == std::string::npos) return "";
  return first.substr(from, first.find_last_not_of(" \t\r") + 1 - from);
}

std::optional<std::string> Host::line_of(const std::string& absolute,
                                         const std::string& key) const {
  std::istringstream lines(read(absolute).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) return line.substr(key.size());
  }
  return {};
}

std::vector<std::string> Host::names(const std::string& absolute) const {
  return topo::folder_names(path(absolute));
}

Result<Host> read_host(const fs::path& root) {
  std::error_code ignored;
  if (!fs::is_directory(root, ignored)) {
    return fail(Code::kInvalidArgument, "there is no folder " + root.string());
  }
  if (!fs::is_directory(root / "proc", ignored) && !fs::is_directory(root / "sys", ignored)) {
    return fail(Code::kInvalidArgument,
                root.string() + " has neither proc nor sys, so that it shows no machine");
  }
  Host host;
  host.root = root;
  host.is_live = root == "/";
  read_environment(&host);
  inspect_topology(&host);
  host.gpus = read_gpu_facts(host);
  host.ports = read_rdma_ports(host);
  host.counters = read_counters(host);
  judge_topology(&host);
  host.process = read_process_facts(host);
  host.libraries = read_library_facts(host);
  return host;
}

Result<Host> read_host_of_file(const topo::InspectOptions& options) {
  auto format = topo::file_format_of(options.from, /*takes_smi=*/false);
  if (!format) return forward_error(format);
  if (*format == topo::FileFormat::kNvidiaSmi) {
    return fail(Code::kInvalidUsage,
                options.from +
                    " is the text of nvidia-smi topo -m, which states too little to judge a "
                    "machine: nccl-gdr topo --from shows it. Fix: run nccl-gdr doctor on the "
                    "machine, or give a file that lstopo or NCCL (NCCL_TOPO_DUMP_FILE) writes");
  }
  Result<topo::Inspection> found = topo::inspect(options);
  if (!found) return forward_error(found);
  Host host;
  host.file = options.from;
  host.is_live = false;
  read_environment(&host);
  host.inspection = std::move(*found);
  judge_topology(&host);
  return host;
}

Observations findings_of(const Host& host, const std::vector<FindingKind>& kinds) {
  Observations seen;
  for (const Finding& finding : host.findings) {
    if (std::find(kinds.begin(), kinds.end(), finding.kind) == kinds.end()) continue;
    seen.push_back(observation_of(finding));
  }
  return seen;
}

std::string needs_sys(const Host& host) {
  return host.is_live ? "mount /sys" : "copy /sys from the machine";
}

Observation unknown_topology(const Host& host) {
  return unknown("", "the topology is unknown: " + topo::clean_text(host.inspection_error),
                 needs_sys(host));
}

bool shows_devices(const Host& host) {
  return is_listable(host.path("/sys/bus/pci/devices")) || is_listable(host.path("/sys/class"));
}

Observation ok_without(const Host& host, std::string subject, std::string evidence) {
  if (shows_devices(host)) return ok(std::move(subject), std::move(evidence));
  return nothing_on(host, "");
}

Observation nothing_on(const Host& host, std::string evidence) {
  if (shows_devices(host)) return nothing(std::move(evidence));
  return unknown("", "/sys cannot be read, so that GPUs and HCAs would not be seen",
                 needs_sys(host));
}

}  // namespace gdr::tools::doctor

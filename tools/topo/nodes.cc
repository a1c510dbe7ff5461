#include "tools/topo/nodes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

#include "tools/topo/file_content.h"
#include "tools/topo/file_format.h"
#include "tools/topo/inspect.h"
#include "tools/topo/labels.h"
#include "tools/topo/read_file.h"
#include "tools/topo/render.h"

namespace gdr::tools::topo {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMaxJsonBytes = 1 << 30;

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
template <class T>
void make_names_unique(const std::vector<std::string>& sources, std::vector<T>* nodes) {
  std::map<std::string, int> uses;
  for (const T& node : *nodes) ++uses[node.name];
  for (size_t i = 0; i < nodes->size(); ++i) {
    if (uses[(*nodes)[i].name] > 1) (*nodes)[i].name += " (" + clean_text(sources[i]) + ")";
  }
  std::map<std::string, int> seen;
  for (T& node : *nodes) {
    const int number = ++seen[node.name];
    if (number > 1) node.name += " #" + std::to_string(number);
  }
}

bool is_json(const std::string& file) {
  std::error_code unreadable;
  if (!fs::is_regular_file(file, unreadable)) return false;
  std::ifstream stream(file);
  char first = 0;
  return stream >> first && first == '{';
}

Result<std::vector<Profile>> profiles_in(const std::string& file) {
  std::error_code unreadable;
  std::ifstream stream(file, std::ios::binary);
  const bool is_folder = fs::is_directory(file, unreadable);
  if (!stream || is_folder) {
    return fail_errno(Code::kInvalidArgument, file + ": cannot be read",
                      is_folder ? EISDIR : errno);
  }
  const uintmax_t size = fs::file_size(file, unreadable);
  if (!unreadable && size > kMaxJsonBytes) {
    return fail(Code::kInvalidArgument, file + ": the file is larger than 1 GiB");
  }
  const std::optional<std::string> text = rest_of_stream(stream, kMaxJsonBytes);
  if (!text) return fail(Code::kInvalidArgument, file + ": cannot be read as a whole");
  return parse_profiles(clean_text(file), *text);
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

Result<Profile> profile_of_inspection(Result<Inspection>& inspection) {
  if (!inspection) return forward_error(inspection);
  return profile_of(
      nlohmann::ordered_json::parse(json_text(inspection->decision, inspection->not_offered)));
}

// Returns the machine of a file of JSON whose position or host this is.
Result<Profile> find_host(std::vector<ProfiledNode>* nodes, const std::string& source,
                          const std::string& host) {
  std::vector<std::string> names;
  for (size_t i = 0; i < nodes->size(); ++i) {
    Result<Profile>& profile = (*nodes)[i].profile;
    if (!profile) return forward_error(profile);
    if (std::to_string(i) == host || profile->host == host) return std::move(profile);
    names.push_back(profile->host);
  }
  return fail(Code::kInvalidUsage, wrong_host_text(source, host, names));
}

// Says what to do with the file of a machine that is given in place of a golden file.
std::string not_golden(const std::string& file, FileFormat format) {
  const std::string name = clean_text(file);
  return fmt::format(
      "--expect: {} is {}, and a golden file is output of --json. Fix: make one by `nccl-gdr topo "
      "--from FILE --json > golden.json`, or compare two machines by --diff",
      name, name_of(format));
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

std::vector<ProfiledNode> read_profiles(const InspectOptions& options,
                                        const std::vector<std::string>& sources) {
  std::vector<ProfiledNode> nodes;
  std::vector<std::string> sources_of_nodes;
  auto add = [&](const std::string& source, std::string name, Result<Profile> profile) {
    sources_of_nodes.push_back(source);
    nodes.push_back({std::move(name), std::move(profile)});
  };
  for (const std::string& source : sources) {
    if (!is_json(source)) {
      for (Node& node : read_nodes(options, {source})) {
        add(source, node.name, profile_of_inspection(node.inspection));
      }
      continue;
    }
    Result<std::vector<Profile>> profiles = profiles_in(source);
    if (!profiles) {
      add(source, name_of_source(source), forward_error(profiles));
      continue;
    }
    for (Profile& profile : *profiles) {
      const std::string name = profile.host.empty() ? name_of_source(source) : profile.host;
      add(source, name, std::move(profile));
    }
  }
  make_names_unique(sources_of_nodes, &nodes);
  return nodes;
}

Result<Profile> read_profile(const InspectOptions& options, const std::string& source) {
  std::vector<ProfiledNode> nodes = read_profiles(options, {source});
  if (options.host.has_value() && is_json(source)) return find_host(&nodes, source, *options.host);
  if (nodes.size() != 1) {
    return fail(Code::kInvalidArgument, clean_text(source) + " has " +
                                            std::to_string(nodes.size()) +
                                            " machines: choose one of each side by --host A,B");
  }
  return std::move(nodes[0].profile);
}

Result<Profile> read_golden(const std::string& file) {
  if (Result<FileFormat> format = file_format_of(file); format) {
    return fail(Code::kInvalidUsage, not_golden(file, *format));
  }
  Result<std::vector<Profile>> profiles = profiles_in(file);
  if (!profiles) return forward_error(profiles);
  if (profiles->size() != 1) {
    return fail(Code::kInvalidArgument, clean_text(file) + " has " +
                                            std::to_string(profiles->size()) +
                                            " documents, and a golden file has one");
  }
  Profile& golden = (*profiles)[0];
  if (golden.gpus.empty() || golden.hcas.empty()) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} describes a machine without {}, which is not one to compare others "
                            "with: write it on a node that works",
                            clean_text(file), golden.gpus.empty() ? "GPUs" : "HCAs"));
  }
  return std::move(golden);
}

}  // namespace gdr::tools::topo

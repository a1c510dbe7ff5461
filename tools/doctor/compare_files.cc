// Fingerprints as profiles that can be compared.
#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/doctor/compare.h"
#include "tools/doctor/fingerprint.h"
#include "tools/topo/labels.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kDeepest = 64;  // levels of values; a fingerprint has less than ten
constexpr uintmax_t kMostBytes = 1 << 28;

Result<Json> parse_json(const std::string& text) {
  bool is_too_deep = false;
  const auto is_kept = [&](int depth, Json::parse_event_t, Json&) {
    is_too_deep = is_too_deep || depth > kDeepest;
    return depth <= kDeepest;
  };
  try {
    Json json = Json::parse(text, is_kept);
    if (!is_too_deep) return json;
    return fail(Code::kInvalidArgument, "its values are nested too deeply for a fingerprint");
  } catch (const Json::exception& error) {
    return fail(Code::kInvalidArgument, "it is not JSON: " + topo::clean_text(error.what()));
  }
}

// Null where the key is missing.
const Json& at_key(const Json& json, const char* key) {
  static const Json null;
  const auto found = json.is_object() ? json.find(key) : json.end();
  return json.is_object() && found != json.end() ? *found : null;
}

std::optional<std::string> text_or_nothing(const Json& json) {
  if (!json.is_string()) return {};
  return topo::clean_text(json.get_ref<const std::string&>());
}

Status check_format(const Json& json) {
  constexpr char kMake[] = ". Fix: make one by nccl-gdr doctor --fingerprint";
  if (at_key(json, "format") != kFingerprintFormat) {
    return fail(Code::kInvalidArgument, std::string("it is not a fingerprint") + kMake);
  }
  if (at_key(json, "version") != kFingerprintVersion) {
    return fail(Code::kInvalidArgument,
                fmt::format("it has version {}, and this program reads {}{}",
                            at_key(json, "version").dump(), kFingerprintVersion, kMake));
  }
  return {};
}

void add_properties(const Json& object, FleetNode* node, bool are_settings) {
  if (!object.is_object()) return;
  for (const auto& [key, value] : object.items()) {
    const std::string name = topo::clean_text(key);
    node->profile.properties.push_back({name, text_or_nothing(value)});
    if (are_settings) node->settings.insert(name);
  }
}

// An HCA that the topology does not have, as one that verbs does not list, is added to it.
void add_hca(const Json& hca, topo::Profile* profile) {
  const std::string name = text_or_nothing(at_key(hca, "name")).value_or("?");
  topo::DeviceProfile* device = nullptr;
  for (topo::DeviceProfile& one : profile->hcas) {
    if (one.label == name) device = &one;
  }
  if (device == nullptr) device = &profile->hcas.emplace_back(topo::DeviceProfile{name, "", {}});
  device->properties.push_back({"firmware", text_or_nothing(at_key(hca, "firmware"))});
  device->properties.push_back({"board", text_or_nothing(at_key(hca, "board"))});
  device->properties.push_back({"type", text_or_nothing(at_key(hca, "type"))});
  device->properties.push_back(
      {"MTU of the interface", text_or_nothing(at_key(hca, "netdev_mtu"))});
}

Result<std::string> read_fingerprint_file(const std::string& file) {
  std::error_code unreadable;
  std::ifstream stream(file, std::ios::binary);
  const bool is_folder = fs::is_directory(file, unreadable);
  if (!stream || is_folder) {
    return fail_errno(Code::kInvalidArgument, "cannot be read", is_folder ? EISDIR : errno);
  }
  const uintmax_t size = fs::file_size(file, unreadable);
  if (!unreadable && size > kMostBytes) {
    return fail(Code::kInvalidArgument, "it is larger than a fingerprint can be");
  }
  return std::string{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// Nodes of one name, as "localhost", are named by their files as well.
void name_apart(const std::vector<std::string>& files, std::vector<FleetNode>* nodes) {
  std::map<std::string, int> uses;
  for (size_t i = 0; i < nodes->size(); ++i) {
    std::string& name = (*nodes)[i].name;
    if (name.empty()) name = topo::clean_text(fs::path(files[i]).stem().string());
    ++uses[name];
  }
  for (size_t i = 0; i < nodes->size(); ++i) {
    std::string& name = (*nodes)[i].name;
    if (uses[name] > 1) name += " (" + topo::clean_text(files[i]) + ")";
  }
}

}  // namespace

Result<FleetNode> parse_fingerprint(const std::string& text) {
  Result<Json> json = parse_json(text);
  if (!json) return forward_error(json);
  if (Status good = check_format(*json); !good) return forward_error(good);
  FleetNode node;
  if (const Json& topology = at_key(*json, "topology"); !topology.is_null()) {
    Result<topo::Profile> profile = topo::profile_of(topology);
    if (!profile) {
      return fail(profile.error().code, "in its topology: " + profile.error().text);
    }
    node.profile = std::move(*profile);
  }
  node.name = text_or_nothing(at_key(*json, "host")).value_or("");
  add_properties(at_key(*json, "software"), &node, false);
  add_properties(at_key(*json, "settings"), &node, true);
  const Json& hcas = at_key(*json, "hcas");
  if (hcas.is_array()) {
    for (const Json& hca : hcas) add_hca(hca, &node.profile);
  }
  return node;
}

Result<std::vector<FleetNode>> read_fleet(const std::vector<std::string>& files) {
  std::vector<FleetNode> nodes;
  for (const std::string& file : files) {
    const std::string prefix = topo::clean_text(file) + ": ";
    Result<std::string> text = read_fingerprint_file(file);
    if (!text) return fail(text.error().code, prefix + text.error().text);
    Result<FleetNode> node = parse_fingerprint(*text);
    if (!node) return fail(node.error().code, prefix + node.error().text);
    nodes.push_back(std::move(*node));
  }
  name_apart(files, &nodes);
  return nodes;
}

}  // namespace gdr::tools::doctor

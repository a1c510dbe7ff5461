// Fingerprints as profiles that can be compared.
#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/doctor/fingerprint.h"
#include "tools/doctor/profile.h"
#include "tools/topo/file_content.h"
#include "tools/topo/labels.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kDeepest = 64;  // levels of values; a fingerprint has less than ten
constexpr size_t kMostBytes = 1 << 28;

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

// Whether each part is of the type that --fingerprint writes; a part may be missing or null.
Status check_parts(const Json& json) {
  for (const char* key : {"software", "settings"}) {
    const Json& part = at_key(json, key);
    if (part.is_null() || part.is_object()) continue;
    return fail(Code::kInvalidArgument, fmt::format("its \"{}\" is no object", key));
  }
  for (const char* key : {"gpus", "hcas"}) {
    const Json& part = at_key(json, key);
    if (part.is_null() || part.is_array()) continue;
    return fail(Code::kInvalidArgument, fmt::format("its \"{}\" is no array", key));
  }
  return {};
}

void add_software(const Json& software, Profile* profile) {
  if (!software.is_object()) return;
  for (const auto& [key, value] : software.items()) {
    profile->properties.push_back({topo::clean_text(key), text_or_nothing(value)});
  }
}

Settings settings_in(const Json& object) {
  Settings settings;
  if (!object.is_object()) return settings;
  for (const auto& [key, value] : object.items()) {
    const std::optional<std::string> text = text_or_nothing(value);
    if (text.has_value()) settings.emplace(topo::clean_text(key), *text);
  }
  return settings;
}

// An HCA that the topology does not have, as one that verbs does not list, is added to it.
void add_hca(const Json& hca, Profile* profile) {
  const std::string name = text_or_nothing(at_key(hca, "name")).value_or("?");
  DeviceProfile* device = nullptr;
  for (DeviceProfile& one : profile->hcas) {
    if (one.label == name) device = &one;
  }
  if (device == nullptr) device = &profile->hcas.emplace_back(DeviceProfile{name, "", {}});
  device->properties.push_back({"firmware", text_or_nothing(at_key(hca, "firmware"))});
  device->properties.push_back({"board", text_or_nothing(at_key(hca, "board"))});
  device->properties.push_back({"type", text_or_nothing(at_key(hca, "type"))});
  device->properties.push_back(
      {"MTU of the interface", text_or_nothing(at_key(hca, "netdev_mtu"))});
  device->properties.push_back({"PCIe link in use", text_or_nothing(at_key(hca, "pcie_link"))});
}

void add_gpu(const Json& gpu, Profile* profile) {
  const std::string name = text_or_nothing(at_key(gpu, "name")).value_or("");
  for (DeviceProfile& one : profile->gpus) {
    if (one.label != name) continue;
    one.properties.push_back({"PCIe lanes in use", text_or_nothing(at_key(gpu, "pcie_width"))});
  }
}

Result<std::string> read_fingerprint_file(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return fail_errno(Code::kInvalidArgument, "cannot be read", errno);
  std::optional<std::string> text = topo::rest_of_stream(stream, kMostBytes);
  if (text.has_value()) return std::move(*text);
  return fail(Code::kInvalidArgument,
              stream.bad() ? "cannot be read" : "it is larger than a fingerprint can be");
}

// Machines of one name, as "localhost", are named by their files as well.
void name_apart(const std::vector<std::string>& files, std::vector<Profile>* profiles) {
  std::map<std::string, int> uses;
  for (size_t i = 0; i < profiles->size(); ++i) {
    std::string& name = (*profiles)[i].name;
    if (name.empty()) name = topo::clean_text(fs::path(files[i]).stem().string());
    ++uses[name];
  }
  for (size_t i = 0; i < profiles->size(); ++i) {
    std::string& name = (*profiles)[i].name;
    if (uses[name] > 1) name += " (" + topo::clean_text(files[i]) + ")";
  }
}

}  // namespace

Result<Profile> parse_fingerprint(const std::string& text) {
  Result<Json> json = parse_json(text);
  if (!json) return forward_error(json);
  if (Status good = check_format(*json); !good) return forward_error(good);
  if (Status good = check_parts(*json); !good) return forward_error(good);
  Profile profile;
  if (const Json& topology = at_key(*json, "topology"); !topology.is_null()) {
    if (Status added = add_topology(topology, &profile); !added) {
      return fail(added.error().code, "in its topology: " + added.error().text);
    }
  }
  profile.name = text_or_nothing(at_key(*json, "host")).value_or("");
  add_software(at_key(*json, "software"), &profile);
  profile.settings = settings_in(at_key(*json, "settings"));
  if (const Json& gpus = at_key(*json, "gpus"); gpus.is_array()) {
    for (const Json& gpu : gpus) add_gpu(gpu, &profile);
  }
  if (const Json& hcas = at_key(*json, "hcas"); hcas.is_array()) {
    for (const Json& hca : hcas) add_hca(hca, &profile);
  }
  return profile;
}

Result<std::vector<Profile>> read_fingerprints(const std::vector<std::string>& files) {
  std::vector<Profile> profiles;
  for (const std::string& file : files) {
    const std::string prefix = topo::clean_text(file) + ": ";
    Result<std::string> text = read_fingerprint_file(file);
    if (!text) return fail(text.error().code, prefix + text.error().text);
    Result<Profile> profile = parse_fingerprint(*text);
    if (!profile) return fail(profile.error().code, prefix + profile.error().text);
    profiles.push_back(std::move(*profile));
  }
  name_apart(files, &profiles);
  return profiles;
}

}  // namespace gdr::tools::doctor

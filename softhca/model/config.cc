#include "softhca/model/config.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "softhca/model/limits.h"

namespace softhca {

namespace {

using Json = nlohmann::json;

gdr::Status bad(const std::string& field, const std::string& accepted) {
  return gdr::fail(gdr::Code::kInvalidUsage, "field \"" + field + "\": accepted is " + accepted);
}

constexpr const char* kName = "a name of at most 40 letters, digits, _ . -";

bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= 40 && std::ranges::all_of(text, [](unsigned char c) {
    return isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
  });
}

bool is_hex(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
}

bool is_guid(const std::string& text) {
  std::string digits = text.starts_with("0x") ? text.substr(2) : text;
  return is_hex(digits) && digits.size() <= 16;
}

// Domain, bus, device and function, as sysfs writes them: 0000:3b:00.0
bool is_pci_function(const std::string& text) {
  std::string digits;
  for (char c : text) {
    if (c != ':' && c != '.') digits += static_cast<char>(tolower(c) == c ? c : '!');
  }
  return text.size() == 12 && text[4] == ':' && text[7] == ':' && text[10] == '.' &&
         digits.size() == 9 && is_hex(digits) && text[11] <= '7';
}

// Reads the fields of one JSON object and complains about those that nobody asked for.
class Fields {
 public:
  Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
    if (!object.is_object()) note(bad(path_.empty() ? "(whole)" : path_, "an object"));
  }

  void number(const char* name, double low, double high, const std::function<void(double)>& set) {
    const Json* value = find(name);
    if (value == nullptr) return;
    if (value->is_number() && *value >= low && *value <= high) return set(value->get<double>());
    note(bad(path(name), "a number from " + text(low) + " to " + text(high)));
  }

  template <class T>
  void integer(const char* name, uint64_t low, uint64_t high, T* target) {
    const Json* value = find(name);
    if (value == nullptr) return;
    if (value->is_number_unsigned() && *value >= low && *value <= high) {
      *target = static_cast<T>(value->get<uint64_t>());
      return;
    }
    note(bad(path(name), "an integer from " + std::to_string(low) + " to " + std::to_string(high)));
  }

  void boolean(const char* name, bool* target) {
    const Json* value = find(name);
    if (value == nullptr) return;
    if (value->is_boolean()) {
      *target = value->get<bool>();
    } else {
      note(bad(path(name), "true or false"));
    }
  }

  template <class Valid>
  void string(const char* name, Valid valid, const std::string& accepted, std::string* target) {
    const Json* value = find(name);
    if (value == nullptr) return;
    if (value->is_string() && valid(value->get<std::string>())) {
      *target = value->get<std::string>();
    } else {
      note(bad(path(name), accepted));
    }
  }

  void strings(const char* name, std::vector<std::string>* target) {
    const Json* value = find(name);
    if (value == nullptr) return;
    if (value->is_array() &&
        std::ranges::all_of(*value, [](const Json& item) { return item.is_string(); })) {
      *target = value->get<std::vector<std::string>>();
    } else {
      note(bad(path(name), "a list of strings"));
    }
  }

  void objects(const char* name, const std::function<gdr::Status(const Json&, std::string)>& read) {
    const Json* value = find(name);
    if (value == nullptr) return;
    if (!value->is_array()) return note(bad(path(name), "a list of objects"));
    size_t i = 0;
    for (const Json& item : *value) note(read(item, path(name) + "[" + std::to_string(i++) + "]"));
  }

  const Json* find(const char* name) {
    known_.insert(name);
    if (!object_.is_object()) return nullptr;
    auto it = object_.find(name);
    return it == object_.end() ? nullptr : &*it;
  }

  std::string path(const std::string& name) const {
    return path_.empty() ? name : path_ + "." + name;
  }

  void note(gdr::Status status) {
    if (first_ && !status) first_ = std::move(status);
  }

  // The first thing that was wrong; call last.
  gdr::Status result() {
    if (!first_ || !object_.is_object()) return first_;
    for (const auto& [name, value] : object_.items()) {
      if (known_.contains(name)) continue;
      std::string list;
      for (const std::string& known : known_) list += (list.empty() ? "" : ", ") + known;
      return gdr::fail(gdr::Code::kInvalidUsage,
                       "unknown field \"" + path(name) + "\"; known here are: " + list);
    }
    return first_;
  }

 private:
  static std::string text(double value) {
    std::ostringstream out;
    out << value;
    return out.str();
  }

  const Json& object_;
  std::string path_;
  std::set<std::string> known_;
  gdr::Status first_;
};

// FNV-1a: GUIDs that are the same in every process of a user, and differ between devices.
uint64_t hash(const std::string& text) {
  uint64_t value = 0xcbf29ce484222325;
  for (char c : text) value = (value ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return value;
}

uint64_t default_guid(const std::string& name) {
  std::ifstream file("/etc/machine-id");
  std::string machine;
  std::getline(file, machine);
  // 02: locally administered; fffe: an EUI-64 made from 48 bits.
  uint64_t bits = hash(machine + "/" + name);
  return 0x0200000000000000 | (bits & 0xffff00000000) << 8 | 0xfffe000000 | (bits & 0xffffff);
}

gdr::Status read_device(const Json& json, const std::string& path, Config* config) {
  DeviceConfig device;
  Fields fields(json, path);
  device.name = "softhca" + std::to_string(config->devices.size());
  fields.string("name", is_name, kName, &device.name);
  fields.integer("ports", 1, kMaxPorts, &device.ports);
  std::string link_layer = "InfiniBand";
  fields.string(
      "link_layer",
      [](const std::string& text) { return text == "InfiniBand" || text == "Ethernet"; },
      "\"InfiniBand\" or \"Ethernet\"", &link_layer);
  device.ethernet = link_layer == "Ethernet";
  fields.integer("lid", 1, 0xbfff, &device.lid);
  fields.strings("gids", &device.gids);
  for (const std::string& gid : device.gids) {
    in6_addr address;
    if (inet_pton(AF_INET6, gid.c_str(), &address) != 1) {
      fields.note(bad(fields.path("gids"), "IPv6 addresses, such as \"::ffff:10.0.0.1\""));
    }
  }
  if (device.gids.size() > kMaxGids / 2 - 1) {
    fields.note(bad(fields.path("gids"), "at most 7 addresses"));
  }
  fields.string("pci", is_pci_function, "a PCI function such as \"0000:3b:00.0\"", &device.pci);
  fields.number("numa_node", -1, 1023,
                [&](double node) { device.numa_node = static_cast<int>(node); });
  std::string guid;
  fields.string("guid", is_guid, "up to 16 hexadecimal digits", &guid);
  device.guid = guid.empty() ? default_guid(device.name) : std::stoull(guid, nullptr, 16);
  fields.number("rate_gbps", 0, 1e5, [&](double rate) { device.rate_gbps = rate; });
  fields.number("latency_us", 0, 1e7, [&](double latency) { device.latency_us = latency; });
  fields.number("registration_us", 0, 1e7, [&](double time) { device.registration_us = time; });
  fields.number("registration_us_per_mib", 0, 1e6,
                [&](double time) { device.registration_us_per_mib = time; });
  fields.integer("mtu", 256, 4096, &device.mtu);
  if (device.mtu != 256 && device.mtu != 512 && device.mtu != 1024 && device.mtu != 2048 &&
      device.mtu != 4096) {
    fields.note(bad(fields.path("mtu"), "256, 512, 1024, 2048 or 4096"));
  }
  fields.integer("speed_gbps", 1, 3200, &device.speed_gbps);
  fields.integer("max_inline", 0, 4096, &device.max_inline);
  fields.integer("max_qp", 1, kMaxQps - 1, &device.max_qp);
  fields.integer("max_qp_wr", 1, 32768, &device.max_qp_wr);
  for (const DeviceConfig& other : config->devices) {
    if (other.name == device.name) fields.note(bad(fields.path("name"), "a name not used before"));
  }
  config->devices.push_back(std::move(device));
  return fields.result();
}

void read_peermem(Fields* fields, PeermemModule* module) {
  const Json* value = fields->find("peermem");
  if (value == nullptr) return;
  if (value->is_boolean()) {
    *module = value->get<bool>() ? PeermemModule::kNvidiaPeermem : PeermemModule::kNone;
  } else if (*value == "nv_peer_mem") {
    *module = PeermemModule::kNvPeerMem;
  } else {
    fields->note(bad(fields->path("peermem"), "true, false or \"nv_peer_mem\""));
  }
}

gdr::Status read_gpu(const Json& json, Config* config) {
  Fields fields(json, "gpu");
  fields.boolean("dmabuf", &config->gpu.dmabuf);
  read_peermem(&fields, &config->gpu.peermem);
  std::string context = "application";
  fields.string(
      "context", [](const std::string& text) { return text == "application" || text == "own"; },
      "\"application\" or \"own\"", &context);
  config->gpu.own_context = context == "own";
  fields.integer("bar1_bytes", 0, 1ull << 50, &config->gpu.bar1_bytes);
  return fields.result();
}

gdr::Status read_fault(const Json& json, const std::string& path, Config* config) {
  static const std::pair<const char*, FaultKind> kKinds[] = {
      {"port_down", FaultKind::kPortDown}, {"port_up", FaultKind::kPortUp},
      {"qp_error", FaultKind::kQpError},   {"reg_mr_refused", FaultKind::kRegMrRefused},
      {"rate", FaultKind::kRate},
  };
  FaultConfig fault;
  Fields fields(json, path);
  std::string kind;
  auto known = [](const std::string& text) {
    return std::ranges::any_of(kKinds, [&](const auto& entry) { return text == entry.first; });
  };
  fields.string("kind", known, "port_down, port_up, qp_error, reg_mr_refused or rate", &kind);
  if (kind.empty()) fields.note(bad(fields.path("kind"), "one of the kinds, and needed"));
  for (const auto& [name, value] : kKinds) {
    if (kind == name) fault.kind = value;
  }
  fields.string("device", is_name, "the name of a device", &fault.device);
  auto device = std::ranges::find(config->devices, fault.device, &DeviceConfig::name);
  if (device == config->devices.end()) {
    fields.note(bad(fields.path("device"), "the name of a device of this configuration"));
  } else {
    fields.integer("port", 1, device->ports, &fault.port);
  }
  fields.number("at_s", 0, 1e6, [&](double at) { fault.at_s = at; });
  fields.integer("after_bytes", 1, 1ull << 60, &fault.after_bytes);
  if (json.is_object() && json.contains("at_s") && json.contains("after_bytes")) {
    fields.note(bad(fields.path("after_bytes"), "either this or at_s"));
  }
  fault.error = ENOMEM;
  fields.integer("errno", 1, 133, &fault.error);
  fields.number("rate_gbps", 0, 1e5, [&](double rate) { fault.rate_gbps = rate; });
  config->faults.push_back(std::move(fault));
  return fields.result();
}

// What is not given: LIDs that do not collide.
void fill_lids(Config* config) {
  uint16_t next = 1;
  for (const DeviceConfig& device : config->devices) {
    if (device.lid != 0)
      next = std::max<uint16_t>(next, static_cast<uint16_t>(device.lid + device.ports));
  }
  for (DeviceConfig& device : config->devices) {
    if (device.lid != 0 || device.ethernet) continue;
    device.lid = next;
    next = static_cast<uint16_t>(next + device.ports);
  }
}

gdr::Result<Config> read(const Json& json) {
  Config config;
  Fields fields(json, "");
  fields.string("fabric", is_name, kName, &config.fabric);
  fields.boolean("process_vm", &config.process_vm);
  fields.integer("staging_bytes", 512 << 10, 256 << 20, &config.staging_bytes);
  if (fields.find("devices") == nullptr) {
    Json two = Json::array({Json::object(), Json::object()});
    for (const Json& device : two) fields.note(read_device(device, "devices", &config));
  }
  fields.objects("devices", [&](const Json& device, const std::string& path) -> gdr::Status {
    if (config.devices.size() == kMaxDevices) return bad("devices", "at most 32 devices");
    return read_device(device, path, &config);
  });
  if (const Json* gpu = fields.find("gpu")) fields.note(read_gpu(*gpu, &config));
  fields.objects("faults", [&](const Json& fault, const std::string& path) {
    return read_fault(fault, path, &config);
  });
  gdr::Status status = fields.result();
  if (!status) return gdr::forward_error(status);
  fill_lids(&config);
  return config;
}

ibv_gid link_local(uint64_t guid, uint32_t port) {
  ibv_gid gid = {};
  gid.global.subnet_prefix = htobe64(0xfe80000000000000);
  gid.global.interface_id = htobe64(guid + port - 1);
  return gid;
}

}  // namespace

std::vector<GidEntry> DeviceConfig::gid_table(uint32_t port) const {
  std::vector<GidEntry> table;
  auto add = [&](const ibv_gid& gid) {
    if (!ethernet) return table.push_back({gid, IBV_GID_TYPE_IB});
    table.push_back({gid, IBV_GID_TYPE_ROCE_V1});
    table.push_back({gid, IBV_GID_TYPE_ROCE_V2});
  };
  add(link_local(guid, port));
  for (const std::string& text : gids) {
    ibv_gid gid = {};
    inet_pton(AF_INET6, text.c_str(), gid.raw);
    // Ports share the list: the next port's addresses follow the first's.
    gid.raw[15] = static_cast<uint8_t>(gid.raw[15] + port - 1);
    add(gid);
  }
  if (ethernet && gids.empty()) {
    // An IPv4-mapped address in 10.0.0.0/8, as a RoCE port with an address would have.
    ibv_gid gid = {};
    uint64_t bits = guid + port - 1;
    const uint8_t address[6] = {0xff,
                                0xff,
                                10,
                                static_cast<uint8_t>(bits >> 16),
                                static_cast<uint8_t>(bits >> 8),
                                static_cast<uint8_t>(bits)};
    memcpy(gid.raw + 10, address, sizeof address);
    add(gid);
  }
  return table;
}

gdr::Result<Config> Config::load(const char* text) {
  std::string source = text == nullptr || *text == '\0' ? "{}" : text;
  std::string name = "SOFTHCA_CONFIG";
  if (source.front() != '{') {
    name = source;
    std::ifstream file(source);
    if (!file) {
      return gdr::fail_errno(gdr::Code::kInvalidUsage, "SOFTHCA_CONFIG: cannot read " + source,
                             errno);
    }
    source.assign(std::istreambuf_iterator<char>(file), {});
  }
  Json json = Json::parse(source, nullptr, false, true);
  if (json.is_discarded()) {
    return gdr::fail(gdr::Code::kInvalidUsage, name + " is not valid JSON");
  }
  gdr::Result<Config> config = read(json);
  if (!config) config.error().text = name + ": " + config.error().text;
  return config;
}

}  // namespace softhca

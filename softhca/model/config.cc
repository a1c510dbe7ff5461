#include "softhca/model/config.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <fstream>

#include "softhca/model/addresses.h"
#include "softhca/model/json_fields.h"
#include "softhca/model/limits.h"

namespace softhca {

namespace {

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

void read_gids(JsonFields* fields, std::vector<std::string>* gids) {
  fields->strings("gids", gids);
  for (const std::string& gid : *gids) {
    in6_addr address;
    if (inet_pton(AF_INET6, gid.c_str(), &address) == 1) continue;
    fields->reject("gids", "IPv6 addresses, such as \"::ffff:10.0.0.1\"");
  }
  // Each takes two entries on Ethernet, as the link-local one does.
  if (gids->size() > kMaxGids / 2 - 1) fields->reject("gids", "at most 7 addresses");
}

void read_identity(JsonFields* fields, DeviceConfig* device) {
  fields->string("name", is_name, kName, &device->name);
  fields->string("pci", is_pci_function, "a PCI function such as \"0000:3b:00.0\"", &device->pci);
  fields->number("numa_node", -1, 1023, &device->numa_node);
  std::string guid;
  fields->string("guid", is_guid, "up to 16 hexadecimal digits", &guid);
  device->guid = guid.empty() ? default_guid(device->name) : std::stoull(guid, nullptr, 16);
}

void read_ports(JsonFields* fields, DeviceConfig* device) {
  fields->integer("ports", 1, kMaxPorts, &device->ports);
  fields->choice<bool>("link_layer", {{"InfiniBand", false}, {"Ethernet", true}},
                       "\"InfiniBand\" or \"Ethernet\"", &device->ethernet);
  fields->integer("lid", 1, 0xbfff, &device->lid);  // above are multicast LIDs (IBTA 4.1.3)
  read_gids(fields, &device->gids);
  fields->choice<uint32_t>("mtu",
                           {{256, 256}, {512, 512}, {1024, 1024}, {2048, 2048}, {4096, 4096}},
                           "256, 512, 1024, 2048 or 4096", &device->mtu);
  fields->integer("speed_gbps", 1, 3200, &device->speed_gbps);
}

void read_timing_and_limits(JsonFields* fields, DeviceConfig* device) {
  fields->number("rate_gbps", 0, 1e5, &device->rate_gbps);
  fields->number("latency_us", 0, 1e7, &device->latency_us);
  fields->number("registration_us", 0, 1e7, &device->registration_us);
  fields->number("registration_us_per_mib", 0, 1e6, &device->registration_us_per_mib);
  fields->integer("max_inline", 0, 4096, &device->max_inline);
  fields->integer("max_qp", 1, kMaxQps - 1, &device->max_qp);
  fields->integer("max_qp_wr", 1, 32768, &device->max_qp_wr);
}

gdr::Status read_device(const Json& json, const std::string& path, Config* config) {
  JsonFields fields(json, path);
  DeviceConfig device;
  device.name = "softhca" + std::to_string(config->devices.size());
  read_identity(&fields, &device);
  read_ports(&fields, &device);
  read_timing_and_limits(&fields, &device);
  for (const DeviceConfig& other : config->devices) {
    if (other.name == device.name) fields.reject("name", "a name not used before");
  }
  config->devices.push_back(std::move(device));
  return fields.result();
}

gdr::Status read_gpu(const Json& json, GpuConfig* gpu) {
  JsonFields fields(json, "gpu");
  fields.boolean("dmabuf", &gpu->dmabuf);
  fields.choice<PeermemModule>("peermem",
                               {{true, PeermemModule::kNvidiaPeermem},
                                {false, PeermemModule::kNone},
                                {"nv_peer_mem", PeermemModule::kNvPeerMem}},
                               "true, false or \"nv_peer_mem\"", &gpu->peermem);
  fields.choice<bool>("context", {{"application", false}, {"own", true}},
                      "\"application\" or \"own\"", &gpu->own_context);
  fields.integer("bar1_bytes", 0, 1ull << 50, &gpu->bar1_bytes);
  return fields.result();
}

gdr::Status read_fault(const Json& json, const std::string& path, Config* config) {
  JsonFields fields(json, path);
  FaultConfig fault;
  const std::string kinds = "port_down, port_up, qp_error, reg_mr_refused or rate";
  fields.choice<FaultKind>("kind",
                           {{"port_down", FaultKind::kPortDown},
                            {"port_up", FaultKind::kPortUp},
                            {"qp_error", FaultKind::kQpError},
                            {"reg_mr_refused", FaultKind::kRegMrRefused},
                            {"rate", FaultKind::kRate}},
                           kinds, &fault.kind);
  if (fields.find("kind") == nullptr) fields.reject("kind", kinds + "; it is required");
  fields.string("device", is_name, "the name of a device", &fault.device);
  auto device = std::ranges::find(config->devices, fault.device, &DeviceConfig::name);
  if (device == config->devices.end()) {
    fields.reject("device", "the name of a device of this configuration");
  } else {
    fields.integer("port", 1, device->ports, &fault.port);
  }
  fields.number("at_s", 0, 1e6, &fault.at_s);
  fields.integer("after_bytes", 1, 1ull << 60, &fault.after_bytes);
  if (fields.find("at_s") != nullptr && fields.find("after_bytes") != nullptr) {
    fields.reject("after_bytes", "either this or at_s");
  }
  fault.error = ENOMEM;
  fields.integer("errno", 1, 133, &fault.error);
  fields.number("rate_gbps", 0, 1e5, &fault.rate_gbps);
  config->faults.push_back(std::move(fault));
  return fields.result();
}

// Gives the InfiniBand devices without a LID the first ones after those that are configured.
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
  JsonFields fields(json, "");
  fields.string("fabric", is_name, kName, &config.fabric);
  fields.boolean("process_vm", &config.process_vm);
  fields.integer("staging_bytes", 512 << 10, 256 << 20, &config.staging_bytes);
  if (fields.find("devices") == nullptr) {
    for (int i = 0; i < 2; ++i) fields.note(read_device(Json::object(), "devices", &config));
  }
  fields.objects("devices", [&](const Json& device, const std::string& path) -> gdr::Status {
    if (config.devices.size() < kMaxDevices) return read_device(device, path, &config);
    fields.reject("devices", "at most 32 devices");
    return {};
  });
  if (const Json* gpu = fields.find("gpu")) fields.note(read_gpu(*gpu, &config.gpu));
  fields.objects("faults", [&](const Json& fault, const std::string& path) {
    return read_fault(fault, path, &config);
  });
  gdr::Status status = fields.result();
  if (!status) return gdr::forward_error(status);
  fill_lids(&config);
  return config;
}

}  // namespace

std::vector<GidEntry> DeviceConfig::gid_table(uint32_t port) const {
  return make_gid_table({guid, gids, ethernet}, port);
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

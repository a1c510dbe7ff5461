#include "softhca/model/config.h"

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

// Domain, bus, device and function, as sysfs writes them: 0000:3b:00.0
bool is_pci_function(const std::string& text) {
  std::string digits;
  for (char c : text) {
    if (c != ':' && c != '.') digits += static_cast<char>(tolower(c) == c ? c : '!');
  }
  return text.size() == 12 && text[4] == ':' && text[7] == ':' && text[10] == '.' &&
         digits.size() == 9 && is_hex(digits) && text[11] <= '7';
}

void read_identity(JsonFields* fields, DeviceConfig* device) {
  fields->string("name", is_name, kName, &device->name);
  fields->string("pci", is_pci_function, "a PCI function such as \"0000:3b:00.0\"", &device->pci);
  fields->number("numa_node", -1, 1023, &device->numa_node);
  device->guid = default_guid(device->name);
  fields->hex("guid", &device->guid);
  uint64_t vendor = device->vendor_id;
  fields->hex("vendor_id", &vendor);
  // An OUI (IBTA 14.2.5.3), or a PCI vendor.
  if (vendor > 0xffffff) fields->reject("vendor_id", "1 to 6 hexadecimal digits");
  device->vendor_id = static_cast<uint32_t>(vendor);
}

void read_transport(JsonFields* fields, DeviceConfig* device) {
  fields->choice<Transport>("transport",
                            {{"InfiniBand", Transport::kInfiniBand},
                             {"iWARP", Transport::kIwarp},
                             {"unspecified", Transport::kUnspecified}},
                            "\"InfiniBand\", \"iWARP\" or \"unspecified\"", &device->transport);
}

gdr::Status read_ece(const Json& json, const std::string& path, EceConfig* ece) {
  JsonFields fields(json, path);
  uint64_t vendor = 0, options = 0, required = 0;
  fields.hex("vendor_id", &vendor);
  fields.hex("options", &options);
  fields.hex("required", &required);
  if (vendor == 0 || vendor > UINT32_MAX) {
    fields.reject("vendor_id", "up to 8 hexadecimal digits, not 0; it is required");
  }
  if (options > UINT32_MAX) fields.reject("options", "up to 8 hexadecimal digits");
  if ((required & ~options) != 0) fields.reject("required", "a part of options");
  *ece = {static_cast<uint32_t>(vendor), static_cast<uint32_t>(options),
          static_cast<uint32_t>(required)};
  return fields.result();
}

// The fields of a port count for all ports in the device itself, and for one in "port_settings".
void read_ports(JsonFields* fields, DeviceConfig* device) {
  fields->integer("ports", 1, kMaxPorts, &device->ports);
  PortConfig shared;
  if (device->transport == Transport::kIwarp) shared.link_layer = IBV_LINK_LAYER_ETHERNET;
  if (device->transport == Transport::kUnspecified) shared.link_layer = IBV_LINK_LAYER_UNSPECIFIED;
  read_port(fields, &shared);
  for (uint32_t number = 1; number <= device->ports; ++number) {
    device->port_settings.push_back(nth_port(shared, number));
  }
  size_t index = 0;
  fields->objects("port_settings", [&](const Json& json, const std::string& path) -> gdr::Status {
    if (index == device->ports) {
      fields->reject("port_settings", "at most one object for each port");
      return {};
    }
    JsonFields port(json, path);
    read_port(&port, &device->port_settings[index++]);
    return port.result();
  });
}

void read_timing_and_limits(JsonFields* fields, DeviceConfig* device) {
  fields->number("rate_gbps", 0, 1e5, &device->rate_gbps);
  fields->number("latency_us", 0, 1e7, &device->latency_us);
  fields->number("ack_timeout_factor", 1e-6, 1, &device->ack_timeout_factor);
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
  read_transport(&fields, &device);
  read_ports(&fields, &device);
  if (const Json* ece = fields.find("ece")) {
    fields.note(read_ece(*ece, path + ".ece", &device.ece));
  }
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

// Fills in the port whose requests the event counts. Returns false for one that does not exist.
bool resolve_event(const Config& config, FaultConfig* fault) {
  EventConfig& event = *fault->at_request;
  if (event.device.empty()) event.device = fault->device;
  if (event.port == 0) event.port = event.device == fault->device ? fault->port : 1;
  auto device = std::ranges::find(config.devices, event.device, &DeviceConfig::name);
  return device != config.devices.end() && event.port <= device->ports;
}

gdr::Status read_fault(const Json& json, const std::string& path, Config* config) {
  JsonFields fields(json, path);
  FaultConfig fault;
  fields.string("device", is_name, "the name of a device", &fault.device);
  bool ethernet = false;
  auto device = std::ranges::find(config->devices, fault.device, &DeviceConfig::name);
  if (device == config->devices.end()) {
    fields.reject("device", "the name of a device of this configuration");
  } else {
    fields.integer("port", 1, device->ports, &fault.port);
    ethernet = device->port(fault.port).ethernet();
  }
  read_fault_fields(&fields, path, ethernet, &fault);
  if (device != config->devices.end() && fault.share != 0 && device->rate_gbps == 0) {
    fields.reject("share", "a share only of a device that has a rate_gbps");
  }
  if (fault.at_request && !resolve_event(*config, &fault)) {
    fields.reject("at_request", "a device and a port of this configuration");
  }
  config->faults.push_back(std::move(fault));
  return fields.result();
}

// Gives the ports without a LID the first ones after those that are configured. Ethernet has none.
void fill_lids(Config* config) {
  uint16_t next = 1;
  for (const DeviceConfig& device : config->devices) {
    for (const PortConfig& port : device.port_settings) {
      if (port.lid != 0) next = std::max<uint16_t>(next, static_cast<uint16_t>(port.lid + 1));
    }
  }
  for (DeviceConfig& device : config->devices) {
    for (PortConfig& port : device.port_settings) {
      if (port.ethernet())
        port.lid = 0;
      else if (port.lid == 0)
        port.lid = next++;
    }
  }
}

gdr::Result<Config> read(const Json& json, const std::string& fabric) {
  Config config;
  if (!fabric.empty()) config.fabric = fabric;
  JsonFields fields(json, "");
  fields.string("fabric", is_name, kName, &config.fabric);
  fields.boolean("process_vm", &config.process_vm);
  fields.string(
      "faults_file", [](const std::string& path) { return path.starts_with('/'); },
      "an absolute path", &config.faults_file);
  fields.boolean("report_faults", &config.report_faults);
  fields.string(
      "counters_file", [](const std::string& path) { return path.starts_with('/'); },
      "an absolute path", &config.counters_file);
  fields.integer("staging_bytes", 512 << 10, 256 << 20, &config.staging_bytes);
  fields.boolean("stale_registrations_fail", &config.stale_registrations_fail);
  fields.number("reorder_us", 0, 1e6, &config.reorder_us);
  fields.integer("memlock_bytes", 0, 1ull << 50, &config.memlock_bytes);
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
  auto at_request = [](const FaultConfig& fault) { return fault.at_request.has_value(); };
  if (std::ranges::count_if(config.faults, at_request) > kMaxTriggers) {
    fields.reject("faults", "at most 64 faults with at_request");
  }
  gdr::Status status = fields.result();
  if (!status) return gdr::forward_error(status);
  fill_lids(&config);
  return config;
}

}  // namespace

std::vector<GidEntry> DeviceConfig::gid_table(uint32_t port) const {
  const PortConfig& config = this->port(port);
  bool ethernet = config.ethernet();
  uint64_t prefix = ethernet ? PortConfig().subnet_prefix : config.subnet_prefix;
  return make_gid_table({guid + port - 1, prefix, config.flid, config.gids, ethernet});
}

gdr::Result<FaultConfig> Config::parse_fault(const std::string& text) const {
  Json json = Json::parse(text, nullptr, false, true);
  if (json.is_discarded()) return gdr::fail(gdr::Code::kInvalidUsage, "a fault is not valid JSON");
  Config with_it;
  with_it.devices = devices;
  gdr::Status status = read_fault(json, "", &with_it);
  if (!status) return gdr::forward_error(status);
  return std::move(with_it.faults.back());
}

gdr::Result<Config> Config::load(const char* text, const char* fabric) {
  const std::string own_fabric = fabric == nullptr ? "" : fabric;
  if (!own_fabric.empty() && !is_name(own_fabric)) {
    return gdr::fail(gdr::Code::kInvalidUsage, std::string("SOFTHCA_FABRIC: accepted is ") + kName);
  }
  std::string source = text == nullptr || *text == '\0' ? "{}" : text;
  std::string name = "SOFTHCA_CONFIG";
  if (source.front() != '{') {
    name = source;
    std::ifstream file(source);
    std::getline(file, source, '\0');  // JSON has none; a folder can be opened, and not be read
    if (!file.is_open() || file.bad()) {
      return gdr::fail_errno(gdr::Code::kInvalidUsage, "SOFTHCA_CONFIG: cannot read " + name,
                             errno);
    }
  }
  Json json = Json::parse(source, nullptr, false, true);
  if (json.is_discarded()) {
    return gdr::fail(gdr::Code::kInvalidUsage, name + " is not valid JSON");
  }
  gdr::Result<Config> config = read(json, own_fabric);
  if (!config) config.error().text = name + ": " + config.error().text;
  return config;
}

}  // namespace softhca

// The devices of the configuration, as ibv_device.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

#include "softhca/model/config.h"

namespace softhca {

class Process;

struct Device {
  ibv_device verbs;
  // Drivers that look whether a device is theirs (mlx5dv_is_supported) read past ibv_device.
  uint8_t foreign_driver_fields[1024];
  uint32_t index;
  const DeviceConfig* config;
  Process* process;

  static Device& of(ibv_device* device) { return *reinterpret_cast<Device*>(device); }
};

// One Device per configured device; they live as long as the process.
const std::vector<Device*>& devices_of(Process& process);

void query_device(const Device& device, ibv_device_attr* attr);
// `bytes`: how much of the structure the caller has.
int query_port(const Device& device, uint32_t number, ibv_port_attr* attr, size_t bytes);

}  // namespace softhca

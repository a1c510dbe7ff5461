// Priority-based flow control (PFC, IEEE 802.1Qbb) of a network interface, as its driver reports
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace gdr::tools::doctor {

// Returns the priorities for which PFC is on, as bits. Nothing where the driver has no DCB (data
// center bridging), or where it cannot be asked. Needs no privilege.
std::optional<uint8_t> pfc_priorities(const std::string& netdev);

// Returns the same from the kernel's answer to DCB_CMD_IEEE_GET.
std::optional<uint8_t> pfc_of_answer(std::span<const uint8_t> answer);

}  // namespace gdr::tools::doctor

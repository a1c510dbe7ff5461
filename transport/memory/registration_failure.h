// Why GPU memory could not be registered with an HCA, and what the user can do about it: a pure
// function of what was tried, the error, and facts about the system. docs/gpu-memory.md lists the
// reasons.
#pragma once

#include <cstdint>
#include <string>

#include "base/finding.h"
#include "transport/device/registration_paths.h"
#include "transport/memory/system_facts.h"

namespace gdr::transport {

// One attempt to register GPU memory, which failed.
struct Attempt {
  RegistrationPath path = RegistrationPath::kDmaBuf;
  bool export_failed =
      false;           // the CUDA driver's export of the dma-buf failed, not the registration
  int error = 0;       // errno of the registration
  uint64_t bytes = 0;  // that were to be registered
};

// Finds the most likely cause of a failed attempt. subject: the registration path, such as
// "dma-buf"; text: the cause; fix: what the user can do.
Finding explain(const Attempt& attempt, const SystemFacts& facts);

// The finding about a path that was not tried because the user's settings exclude it.
Finding disabled_by_user(RegistrationPath path);

// Joins the findings of several paths into one text and names each fix once:
// "dma-buf: the CUDA driver exports no dma-buf of this GPU; nvidia-peermem: the kernel module
// nvidia-peermem is not loaded (...). Fix: use NVIDIA's open ...; or: modprobe nvidia-peermem".
// last_fix: one that helps whatever the causes are; empty: there is none.
std::string joined_text(const Findings& findings, const std::string& last_fix = "");

}  // namespace gdr::transport

// Variables of NCCL as the checks show them: the value, and what set it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/doctor/check.h"

namespace gdr::tools::doctor {

struct Host;

// Returns the value of a variable that is set to something.
std::optional<std::string> nccl_setting(const Host& host, const std::string& name);

// Returns its value as NCCL reads numbers; nothing where it is unset or empty, or out of range.
std::optional<int64_t> nccl_number(const Host& host, const std::string& name);

// Returns what made the setting: "environment", "/etc/nccl.conf:3".
std::string source_text(const Host& host, const std::string& name);

// Returns the value with that: "mlx5 (environment)", for evidence whose subject is the variable.
std::string value_text(const Host& host, const std::string& name);

// Returns the setting with that: "NCCL_IB_HCA=mlx5 (/etc/nccl.conf:3)".
std::string setting_text(const Host& host, const std::string& name);

// Returns how to take it back: "unset NCCL_IB_HCA", "remove line 3 of /etc/nccl.conf".
std::string unset_text(const Host& host, const std::string& name);

// Returns how to set it to another value: "export NCCL_IB_HCA=mlx5_0", or in its line of the file.
std::string set_text(const Host& host, const std::string& name, const std::string& value);

// Returns how to correct a variable that is set: a list of names, to what can be read of it. To
// unset it would let in every HCA or interface, so that this is only for other variables, and for a
// list without names.
std::string correct_text(const Host& host, const std::string& name);

// Returns how to keep NCCL off these ports, such as mlx5_0:1. A list that is set is not replaced:
// that would let in the HCAs that it leaves out.
std::string exclude_text(const Host& host, const std::vector<std::string>& ports);

// Returns what a check says that finds nothing set: `healthy`, or that the variables of another
// machine's jobs are not known.
Observation nothing_set(const Host& host, std::string healthy);

// Whether NCCL has a variable of that name. Those of its transport (NCCL_IB_*, NCCL_SOCKET_*) are
// in plugin/config, which judges them.
bool is_nccl_name(const std::string& name);
// Returns NCCL's name from which `name` differs by at most two letters, the nearest of several; ""
// where there is none.
std::string nccl_name_like(const std::string& name);

// Whether an entry of NCCL_NET_PLUGIN names this plugin: "gdr", or its file.
bool names_this_plugin(const std::string& entry);

// Returns the entries of NCCL_NET_PLUGIN, which is a list from NCCL 2.27 on.
std::vector<std::string> plugin_entries(const Host& host);

// Whether NCCL_NET_PLUGIN has this plugin among its entries.
bool asks_for_this_plugin(const Host& host);

// What a check says where the variable names a file that a copy of a machine need not have, as it
// is of /proc, /sys, /dev and /etc; nothing where the file or its absence is known.
std::optional<Observation> left_out(const Host& host, const char* name);

}  // namespace gdr::tools::doctor

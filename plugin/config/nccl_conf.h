// NCCL's configuration files. NCCL puts them into the environment of a process before it loads the
// plugin, so only tools, which run without NCCL, have to read them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plugin/config/environment.h"

namespace gdr::config {

// The line of a file that sets a variable.
struct ConfPlace {
  std::string file;
  int line = 0;  // from 1
  bool operator==(const ConfPlace&) const = default;
};
using ConfPlaces = std::map<std::string, ConfPlace, std::less<>>;  // by the variable's name

// Returns the files that NCCL reads, in its order (initEnv in its src/misc/param.cc): the one that
// NCCL_CONF_FILE names or, where that is unset or empty, .nccl.conf in the folder `home`, unless
// that is empty; then /etc/nccl.conf.
std::vector<std::string> nccl_conf_files(const Environment& environment, const std::string& home);

// Adds the variables of a file that `environment` lacks and whose names begin with NCCL_ or
// GDR_NCCL_. A line is NAME=VALUE, without blanks around the sign; other lines and those that begin
// with '#' are ignored. Of two lines the first counts. Does nothing where the file cannot be read.
// Adds to `places`, which may be null, the line that sets each of these variables, also of those
// that `environment` has, but not of those that `places` has.
void add_nccl_conf(const std::string& file, Environment* environment, ConfPlaces* places = nullptr);

// Returns process_environment() with what NCCL would add to it from its files, and where these set
// variables, as add_nccl_conf() does.
Environment process_environment_with_nccl_conf(ConfPlaces* places = nullptr);

}  // namespace gdr::config

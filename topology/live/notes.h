// What the user should know about how the machine was read; whole sentences.
#pragma once

#include <string>
#include <vector>

namespace gdr::topology {

struct Notes {
  std::vector<std::string> warnings;  // the user has to act
  std::vector<std::string> infos;
};

}  // namespace gdr::topology

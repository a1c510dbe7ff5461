// Compares nccl::Prediction with the oracle on one topology file.
#pragma once

#include <string>
#include <vector>

#include "tools/prediction/settings.h"

namespace gdr::topology::oracle {

struct Comparison {
  bool compared = false;                 // false: the file or NCCL of that release is left out
  std::string left_out;                  // why
  std::vector<std::string> differences;  // "GPU0 -> device 3: predicted PXB ..., expected PHB ..."
};

Comparison compare(const std::string& file_text, const nccl::Settings& settings);

}  // namespace gdr::topology::oracle

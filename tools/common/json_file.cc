#include "tools/common/json_file.h"

#include <cerrno>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

namespace gdr::tools {

Status write_json(const std::string& file, const nlohmann::json& value) {
  std::string text = value.dump(2) + "\n";
  if (file == "-") {
    std::cout << text << std::flush;
    return {};
  }
  std::ofstream out(file);
  out << text << std::flush;
  if (!out) return fail_errno(Code::kSystem, "cannot write " + file, errno);
  return {};
}

}  // namespace gdr::tools

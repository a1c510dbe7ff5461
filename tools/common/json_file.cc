#include "tools/common/json_file.h"

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/common/output.h"

namespace gdr::tools {

Status write_json(const std::string& file, const nlohmann::json& value) {
  std::string text = value.dump(2) + "\n";
  if (file == "-") {
    print_now(text);
    return {};
  }
  std::ofstream out(file);
  out << text << std::flush;
  if (!out) return fail_errno(Code::kSystem, "cannot write " + file, errno);
  return {};
}

}  // namespace gdr::tools

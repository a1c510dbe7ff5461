#include "tools/topo/file_format.h"

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "tools/sources/nvidia_smi.h"

namespace gdr::tools::topo {
namespace {

constexpr char kBlanks[] = " \t\r\n";
constexpr size_t kMaxPrologue = 1 << 20;  // bytes before the root element

// Returns what follows the first `end` in the text, or "" where there is no `end`.
std::string_view after(std::string_view text, std::string_view end) {
  size_t at = text.find(end);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + end.size());
}

// A DOCTYPE ends at the first '>' outside its brackets.
std::string_view after_doctype(std::string_view text) {
  size_t bracket = text.find('[');
  return bracket < text.find('>') ? after(after(text, "]"), ">") : after(text, ">");
}

// Returns the name of the first element after the prologue, comments and DOCTYPE, or "".
std::string_view root_element(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (!text.empty()) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    if (text.starts_with("<?")) {
      text = after(text, "?>");
    } else if (text.starts_with("<!--")) {
      text = after(text, "-->");
    } else if (text.starts_with("<!")) {
      text = after_doctype(text);
    } else {
      break;
    }
  }
  if (!text.starts_with("<")) return "";
  text.remove_prefix(1);
  return text.substr(0, text.find_first_of(" \t\r\n/>"));
}

}  // namespace

Result<FileFormat> file_format(std::string_view text) {
  std::string_view root = root_element(text);
  if (root == "topology") return FileFormat::kHwloc;
  if (root == "system") return FileFormat::kNccl;
  if (root.empty() && topology::has_smi_matrix(text)) return FileFormat::kNvidiaSmi;
  if (root == "graphs") {
    return fail(
        Code::kInvalidUsage,
        "this is a graph of NCCL (NCCL_GRAPH_DUMP_FILE), which has no machine: give the file "
        "that NCCL writes with NCCL_TOPO_DUMP_FILE=file.xml");
  }
  const size_t start = text.find_first_not_of(kBlanks);
  if (start != std::string_view::npos && text[start] == '{') {
    return fail(
        Code::kInvalidUsage,
        "this is JSON: a file of --fingerprint is for nccl-gdr doctor --expect and --compare");
  }
  return fail(
      Code::kInvalidUsage,
      "this is neither an hwloc XML file (which `lstopo file.xml` writes) nor a NCCL topology file "
      "(which NCCL writes with NCCL_TOPO_DUMP_FILE=file.xml) nor the text of `nvidia-smi topo -m`");
}

Result<FileFormat> file_format_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text(kMaxPrologue, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || !in.is_open()) {
    return fail_errno(Code::kInvalidUsage, file + " cannot be read", errno);
  }
  text.resize(static_cast<size_t>(in.gcount()));
  Result<FileFormat> format = file_format(text);
  if (!format) return fail(format.error().code, file + ": " + format.error().text);
  return format;
}

}  // namespace gdr::tools::topo

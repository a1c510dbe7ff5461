#include "topology/sources/xml_file.h"

#include <algorithm>
#include <cerrno>
#include <fstream>

namespace gdr::topology {
namespace {

constexpr size_t kMaxSize = 16 << 20;  // bytes; the hwloc file of a big machine has 1 MiB
constexpr int kMaxDepth = 64;          // the readers of documents recurse

// Returns the first node below kMaxDepth levels, or an empty one. It does not recurse, since a
// malicious file could exhaust the stack.
pugi::xml_node too_deep(const pugi::xml_document& document) {
  int depth = 0;
  pugi::xml_node node = document;
  for (;;) {
    if (node.first_child()) {
      node = node.first_child();
      if (++depth > kMaxDepth) return node;
      continue;
    }
    while (!node.next_sibling()) {
      node = node.parent();
      if (!node) return {};
      --depth;
    }
    node = node.next_sibling();
  }
}

}  // namespace

Result<std::string> XmlFile::text_of(const std::string& file) {
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  std::string text;
  for (char block[1 << 16]; stream && text.size() <= kMaxSize;) {
    stream.read(block, sizeof(block));
    text.append(block, static_cast<size_t>(stream.gcount()));
  }
  if (stream.bad() || (text.empty() && errno != 0)) {
    return fail_errno(Code::kInvalidArgument, file + " cannot be read", errno);
  }
  if (text.size() > kMaxSize) {
    return fail(Code::kInvalidArgument,
                file + " is larger than 16 MiB, which is too large for a topology file");
  }
  return text;
}

Result<XmlFile> XmlFile::read(const std::string& file) {
  Result<std::string> text = text_of(file);
  if (!text) return forward_error(text);
  return parse(std::move(*text), file);
}

Result<XmlFile> XmlFile::parse(std::string text, std::string name) {
  XmlFile xml;
  xml.name_ = std::move(name);
  xml.text_ = std::move(text);
  xml.document_ = std::make_unique<pugi::xml_document>();
  auto result = xml.document_->load_buffer(xml.text_.data(), xml.text_.size());
  if (!result) {
    return xml.error_at_offset(result.offset, std::string("not XML: ") + result.description());
  }
  if (auto node = too_deep(*xml.document_)) {
    return xml.error_at(node, "elements are nested deeper than 64 levels");
  }
  return xml;
}

tl::unexpected<Error> XmlFile::error_at(const pugi::xml_node& node, const std::string& what) const {
  return error_at_offset(node.offset_debug(), what);
}

int XmlFile::line_at(ptrdiff_t offset) const {
  const size_t end = offset < 0 ? 0 : std::min(static_cast<size_t>(offset), text_.size());
  return static_cast<int>(
      1 + std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(end), '\n'));
}

tl::unexpected<Error> XmlFile::error_at_offset(ptrdiff_t offset, const std::string& what) const {
  return fail(Code::kInvalidArgument, name_ + ":" + std::to_string(line_at(offset)) + ": " + what);
}

}  // namespace gdr::topology

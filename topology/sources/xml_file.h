// XML files from outside, with limits on their size and depth and with errors that name the line.
#pragma once

#include <memory>
#include <pugixml.hpp>
#include <string>

#include "base/result.h"

namespace gdr::topology {

class XmlFile {
 public:
  // Reads a whole file, of at most 16 MiB and 64 levels of elements. Errors are InvalidArgument.
  static Result<XmlFile> read(const std::string& file);
  static Result<std::string> text_of(const std::string& file);  // within the same limit
  // Parses text. Errors call it `name`.
  static Result<XmlFile> parse(std::string text, std::string name);

  const std::string& name() const { return name_; }
  const std::string& text() const { return text_; }
  const pugi::xml_document& document() const { return *document_; }
  int line_of(const pugi::xml_node& node) const { return line_at(node.offset_debug()); }  // from 1
  // Returns an error about a node: "topo.xml:12: <pci> has no busid".
  tl::unexpected<Error> error_at(const pugi::xml_node& node, const std::string& what) const;

 private:
  XmlFile() = default;
  int line_at(ptrdiff_t offset) const;
  tl::unexpected<Error> error_at_offset(ptrdiff_t offset, const std::string& what) const;

  std::string name_;
  std::string text_;  // which the document refers to by offsets, for line numbers
  std::unique_ptr<pugi::xml_document> document_;
};

}  // namespace gdr::topology

// XML files that people hand us: read whole, with errors that name the place.
#pragma once

#include <memory>
#include <pugixml.hpp>
#include <string>

#include "base/result.h"

namespace gdr::topology {

class XmlFile {
 public:
  // At most 16 MiB.
  static Result<XmlFile> read(const std::string& file);
  // `name` is what errors call it.
  static Result<XmlFile> parse(std::string text, std::string name);

  const std::string& name() const { return name_; }
  const pugi::xml_document& document() const { return *document_; }
  // "topo.xml:12: <pci> has no busid"
  tl::unexpected<Error> error_at(const pugi::xml_node& node, const std::string& what) const;

 private:
  XmlFile() = default;
  tl::unexpected<Error> error_at_offset(ptrdiff_t offset, const std::string& what) const;

  std::string name_;
  std::string text_;
  std::unique_ptr<pugi::xml_document> document_;
};

}  // namespace gdr::topology

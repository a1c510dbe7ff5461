#include "tools/sources/hwloc_xml.h"

#include "tools/sources/hwloc_xml_check.h"
#include "topology/sources/hwloc.h"
#include "topology/sources/xml_file.h"

namespace gdr::topology {
namespace {

// Returns the XML without comments. hwloc's built-in reader silently ends an element at a comment,
// so that all devices after it would be missing.
std::string without_comments(const pugi::xml_node& topology) {
  struct Writer : pugi::xml_writer {
    void write(const void* data, size_t size) override {
      text.append(static_cast<const char*>(data), size);
    }
    std::string text;
  } writer;
  topology.print(writer, "", pugi::format_raw | pugi::format_no_declaration);
  return std::move(writer.text);
}

}  // namespace

Result<Machine> hwloc_xml(const std::string& file, const Selection& selection) {
  auto xml = XmlFile::read(file);
  if (!xml) return forward_error(xml);
  pugi::xml_node root = xml->document().child("topology");
  if (!root) {
    bool nccl = !xml->document().child("system").empty();
    return fail(Code::kInvalidArgument, file + " has no <topology>" +
                                            (nccl ? " but is a NCCL topology file" : "") +
                                            ": expected a file that `lstopo --of xml FILE` wrote");
  }
  if (Status status = check_hwloc_xml(*xml, root); !status) return forward_error(status);
  auto library = HwlocLibrary::load();
  if (!library) return forward_error(library);
  auto topology = load_xml(**library, without_comments(root), file);
  if (!topology) return forward_error(topology);
  Machine machine = machine_of(**library, *topology, selection, std::nullopt);
  machine.source = "hwloc XML " + file;
  return machine;
}

}  // namespace gdr::topology

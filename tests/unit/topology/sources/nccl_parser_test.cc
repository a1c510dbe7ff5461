#include "topology/sources/nccl_parser.h"

#include <gmock/gmock.h>

#include "tests/unit/topology/machine_checks.h"
#include "topology/sources/nccl_xml.h"

namespace gdr::topology {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kHead[] = "<system version=\"1\">\n<cpu numaid=\"0\">\n";
constexpr char kTail[] = "</cpu>\n</system>\n";

std::string cpu_with(const std::string& elements) { return kHead + elements + kTail; }
std::string repeated(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

// The last one, "3: a tab, .... Fix: ...", if it is of the kind asked for; "" where NCCL reads
// everything.
std::string last_of(const std::string& text, bool refused) {
  const std::vector<NcclDiagnostic> diagnostics = nccl_diagnostics(text);
  if (diagnostics.empty() || diagnostics.back().refused != refused) return "";
  EXPECT_NE(diagnostics.back().fix, "");
  const NcclDiagnostic& last = diagnostics.back();
  return std::to_string(last.line) + ": " + last.text + ". Fix: " + last.fix;
}

TEST(NcclParser, EachKindOfFileThatNcclRefuses_HasItsLine) {
  const std::string pci = "<pci busid=\"0000:10:00.0\"/>\n";
  const std::pair<std::string, const char*> refused[] = {
      {"<?xml version=\"1.0\"?>\n" + cpu_with(""),
       "1: <?xml>, an element to NCCL, does not end. Fix: remove"},
      {"<!DOCTYPE system>\n" + cpu_with(""),
       "1: <!DOCTYPE>, an element to NCCL, does not end. Fix: remove"},
      {"\xff\xfe" + cpu_with(""), "Fix: save the file as UTF-8 without a byte order mark"},
      {"\xef\xbb\xbf" + cpu_with(""), "Fix: save the file as UTF-8 without a byte order mark"},
      {"\xc3\xa4" + cpu_with(""), "1: a byte outside printable ASCII, where"},
      {cpu_with("\t" + pci), "3: a tab, where NCCL expects the next element"},
      {cpu_with("<pci\tbusid=\"0000:10:00.0\"/>"), "3: '=' within the first word"},
      {cpu_with("<pci busid=\"0\"\tclass=\"0\"/>"), "3: a tab within <pci>"},
      {cpu_with("<pci busid=\"0\"\n class=\"0\"/>"), "3: the end of the line within <pci>"},
      {cpu_with("<pci busid=\"0\"\r\n class=\"0\"/>"), "3: the end of the line within <pci>"},
      {cpu_with("\n0" + pci), "4: '0', where NCCL expects the next element"},
      {cpu_with("<![CDATA[x]]>"), "3: <![CDATA[x]]>, an element to NCCL"},
      {cpu_with("<pci busid= \"0\"/>"), "3: a blank behind '='"},
      {cpu_with("<pci busid = \"0\"/>"), "3: a blank behind '='"},
      {cpu_with("<pci busid=0/>"), "3: '0' behind '='"},
      {cpu_with("<pci busid='0'/>"), "3: ''' behind '=', where NCCL expects a double"},
      {cpu_with("<!--a=1 -->"), "3: '=' within the first word"},
      {cpu_with("<!-- "), "3: a comment that does not end"},
      {cpu_with("<pci></cpu>"), "3: </cpu>, where <pci> is open"},
      {cpu_with("<pci></pci >"), "3: a blank within <pci>"},
      {cpu_with("<pci busid=\"" + repeated(254, "0") + "\"/>"), "3: a value of more than 253"},
      {cpu_with("<" + repeated(255, "x") + "/>"), "3: a name of more than 253"},
      {cpu_with(repeated(129, pci)), "131: more than 128 elements in one <cpu>"},
      {cpu_with("<pci>" + repeated(127, pci) + "</pci>" + "<pci>" + repeated(125, pci) + "</pci>"),
       "254: more than 255 elements"},
      {"<system>\n</system>\n", "1: <system> is not of version 1"},
      {"<system version=\"2\">\n</system>\n", "1: <system> is not of version 1"},
      {"<system" + repeated(16, " a=\"\"") + " version=\"1\">\n</system>\n", "not of version 1"},
      {"<system version=\"\" version=\"1\">\n</system>\n", "not of version 1"},
      {kHead, "2: <cpu> does not end"},
      {kHead + std::string("<pci busid=\"00"), "3: the file ends within an element"}};
  for (const auto& [text, diagnostic] : refused)
    EXPECT_THAT(last_of(text, true), HasSubstr(diagnostic));
}

TEST(NcclParser, WhatNcclIgnores_IsADiagnostic) {
  const std::pair<std::string, const char*> ignored[] = {
      {"<pci busid =\"0\"/>", "3: NCCL ignores the value of busid in <pci>"},
      {"<pci a=\"1\"" + repeated(15, "  b=\"1\"") + "/>",
       "3: NCCL ignores the value of b in <pci>"},
      {"<pci busid=\"0\">\n<net name=\"a\"/></pci>", "4: NCCL ignores a <net> outside <nic>"},
      {"<pci \tbusid=\"0\"/>", "3: NCCL takes the tab for a part of the name busid in <pci>"},
      {"<pci busid=\"0\" class\t=\"0\"/>", "a part of the name class in <pci>"},
      {"<node><pci busid=\"0\"/></node>", "3: NCCL ignores a <pci> outside <cpu> or <pci>"}};
  for (const auto& [elements, diagnostic] : ignored) {
    EXPECT_THAT(last_of(cpu_with(elements), false), HasSubstr(diagnostic));
  }
}

TEST(NcclParser, WhatNcclReads_IsFine) {
  for (const std::string elements :
       {"", "<!-- a=1 > -- -->", "<!---->", "<pci busid=\"0\" />", "<pci  busid=\"0\"></pci>",
        "\r\n<pci busid=\"it's\"/>\r\n", "<other a=\"1\"><more/></other>"}) {
    EXPECT_THAT(nccl_diagnostics(cpu_with(elements)), IsEmpty()) << elements;
  }
  EXPECT_THAT(
      nccl_diagnostics(cpu_with(repeated(2, "<pci busid=\"" + repeated(253, "0") + "\"/>"))),
      IsEmpty());
}

// The project's own files are read by NCCL, but for that of its AMD counterpart.
TEST(NcclParser, OwnFiles_AreReadAsTheyLook) {
  for (const char* name : {"azure-ndv4", "azure-ndv5", "cloud-4nic", "cross-wired", "dgx-a100",
                           "gb200-tray", "hgx-4nic", "nps4-2nic", "amd-4gpu"}) {
    const std::string file = std::string(GDR_TOPOLOGIES) + "/nccl-" + name + ".xml";
    EXPECT_THAT(checked(nccl_xml(file)).findings, IsEmpty()) << name;
  }
}

}  // namespace
}  // namespace gdr::topology

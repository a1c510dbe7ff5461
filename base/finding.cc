#include "base/finding.h"

#include <string_view>

#include "base/log.h"

namespace gdr {
namespace {

constexpr std::string_view kFixMark = ". Fix: ";

}  // namespace

std::string to_string(const Finding& finding) {
  std::string text = finding.subject.empty() ? finding.text : finding.subject + ": " + finding.text;
  return finding.fix.empty() ? text : text.append(kFixMark) + finding.fix;
}

Finding split_fix(const std::string& text) {
  const size_t at = text.find(kFixMark);
  if (at == std::string::npos) return {Severity::kInfo, "", text, ""};
  return {Severity::kInfo, "", text.substr(0, at), text.substr(at + kFixMark.size())};
}

void log_findings(const Findings& findings, unsigned long subsystems) {
  for (const Finding& finding : findings) {
    if (finding.severity == Severity::kInfo) {
      GDR_INFO(subsystems, "%s", to_string(finding).c_str());
    } else {
      GDR_WARN("%s", to_string(finding).c_str());
    }
  }
}

}  // namespace gdr

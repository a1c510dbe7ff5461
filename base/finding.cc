#include "base/finding.h"

#include "base/log.h"

namespace gdr {

std::string to_string(const Finding& finding) {
  std::string text = finding.subject.empty() ? finding.text : finding.subject + ": " + finding.text;
  return finding.fix.empty() ? text : text + ". Fix: " + finding.fix;
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

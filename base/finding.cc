#include "base/finding.h"

#include <string_view>
#include <utility>

#include "base/log.h"

namespace gdr {
namespace {

constexpr std::string_view kFixMark = ". Fix: ";

constexpr const char* kIds[] = {
#define GDR_FINDING_KIND(name, id) id,
#include "base/finding_kinds.def"
#undef GDR_FINDING_KIND
};

}  // namespace

const char* id_of(FindingKind kind) { return kIds[static_cast<size_t>(kind)]; }

std::string to_string(const Finding& finding) {
  std::string text = finding.subject.empty() ? finding.text : finding.subject + ": " + finding.text;
  return to_string(TextAndFix{std::move(text), finding.fix});
}

TextAndFix split_fix(const std::string& text) {
  const size_t at = text.find(kFixMark);
  if (at == std::string::npos) return {text, ""};
  return {text.substr(0, at), text.substr(at + kFixMark.size())};
}

std::string to_string(const TextAndFix& parts) {
  return parts.fix.empty() ? parts.text : parts.text + std::string(kFixMark) + parts.fix;
}

void log_findings(const Findings& findings, unsigned long subsystems) {
  for (const Finding& finding : findings) {
    const bool is_info = finding.severity == Severity::kInfo;
    log::write_of_kind(is_info ? log::Level::kInfo : log::Level::kWarn, is_info ? subsystems : ~0ul,
                       id_of(finding.kind), to_string(finding).c_str());
  }
}

}  // namespace gdr

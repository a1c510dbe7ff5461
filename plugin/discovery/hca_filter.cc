#include "plugin/discovery/hca_filter.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace gdr::discovery {
namespace {

constexpr int kMaxPort = 255;            // verbs counts ports in 8 bits
constexpr int kMaxRailOrPlane = 0x7fff;  // NCCL's properties carry them in 16 bits, signed

struct Field {
  int low;
  int high;
  int HcaFilter::Entry::*value;
};

constexpr Field kFields[] = {{1, kMaxPort, &HcaFilter::Entry::port},
                             {0, kMaxRailOrPlane, &HcaFilter::Entry::rail},
                             {0, kMaxRailOrPlane, &HcaFilter::Entry::plane}};
constexpr char kNoFields[] =
    "behind the name stand :port, from 1 to 255, :rail and :plane, from 0 to 32767";

// Parses `[port[:rail[:plane]]]`; an empty field is not given.
bool parse_fields(std::string_view text, HcaFilter::Entry* entry) {
  for (const auto& [low, high, field] : kFields) {
    const size_t colon = std::min(text.find(':'), text.size());
    int& value = entry->*field;
    if (colon > 0) {
      const char* field_end = text.data() + colon;
      const auto [end, error] = std::from_chars(text.data(), field_end, value);
      if (error != std::errc() || end != field_end || value < low || value > high) return false;
    }
    if (colon == text.size()) return true;
    text.remove_prefix(colon + 1);
  }
  return false;
}

bool has_device(const HcaFilter::Ports& ports, const std::string& name) {
  return std::ranges::any_of(ports, [&](const auto& port) { return port.first == name; });
}

// "'a', 'b'", in these quotes.
std::string listed(const auto& texts, const std::string& quote) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "" : ", ") + quote + text + quote;
  return list;
}

}  // namespace

Result<HcaFilter> HcaFilter::parse(std::string_view text) {
  HcaFilter filter;
  NameList& list = filter.list_;
  list = NameList::parse(text);
  for (Entry& entry : std::exchange(list.entries, {})) {
    if (!parse_fields(entry.fields, &entry)) {
      list.add_unread(entry.name + ":" + entry.fields, kNoFields);
      if (!list.exclude) continue;
      entry = {.name = entry.name, .fields = ""};
    }
    list.entries.push_back(std::move(entry));
  }
  return filter;
}

bool HcaFilter::matches(const Entry& entry, std::string_view device, int port) const {
  return list_.names(entry, device) && (entry.port == -1 || entry.port == port);
}

const HcaFilter::Entry* HcaFilter::match(std::string_view device, int port) const {
  for (const Entry& entry : list_.entries) {
    if (matches(entry, device, port)) return &entry;
  }
  return nullptr;
}

// Returns the HCAs that are matched only by the whole names of other HCAs, and these names.
std::set<std::string> HcaFilter::hcas_by_prefix(const Ports& ports,
                                                std::set<std::string>* by) const {
  std::set<std::string> matched;
  for (const auto& [device, port] : ports) {
    std::set<std::string> names;
    bool is_meant = false;
    for (const Entry& entry : list_.entries) {
      if (!matches(entry, device, port)) continue;
      const std::string& name = entry.name;
      is_meant = is_meant || name == device || !has_device(ports, name);
      names.insert(name);
    }
    if (is_meant || names.empty()) continue;
    matched.insert(device);
    by->merge(names);
  }
  return matched;
}

std::string HcaFilter::exact_text(const Ports& ports) const {
  NameList exact = list_;
  exact.exact = true;
  exact.entries.clear();
  for (const NameList::Entry& entry : list_.entries) {
    std::set<std::string> names;
    for (const auto& [device, port] : ports) {
      if (list_.names(entry, device)) names.insert(device);
    }
    if (names.empty() || has_device(ports, entry.name)) names = {entry.name};
    for (const std::string& name : names)
      exact.entries.push_back({.name = name, .fields = entry.fields});
  }
  return exact.to_string();
}

Findings HcaFilter::findings_on(const Ports& ports) const {
  Findings findings;
  std::vector<std::string> unmatched;
  for (const Entry& entry : list_.entries) {
    const bool any = ports.empty() || std::ranges::any_of(ports, [&](const auto& port) {
                       return matches(entry, port.first, port.second);
                     });
    if (!any) unmatched.push_back(entry.name + (entry.fields.empty() ? "" : ":") + entry.fields);
  }
  if (!unmatched.empty()) {
    std::set<std::string> hcas;
    for (const auto& port : ports) hcas.insert(port.first);
    const bool has_effect = list_.exclude || unmatched.size() < list_.entries.size();
    findings.push_back({FindingKind::kHcaUnmatched, Severity::kWarning, "NCCL_IB_HCA",
                        listed(unmatched, "'") + (unmatched.size() == 1 ? " matches" : " match") +
                            " no port of this machine, whose HCAs are " + listed(hcas, ""),
                        has_effect ? "correct a name that is misspelt; nothing to do where the "
                                     "list is for several kinds of machine"
                                   : "name HCAs of this machine"});
  }
  std::set<std::string> by;
  if (const auto others = hcas_by_prefix(ports, &by); !others.empty()) {
    findings.push_back({FindingKind::kHcaPrefix, Severity::kWarning, "NCCL_IB_HCA",
                        std::string("the list also ") + (list_.exclude ? "excludes " : "accepts ") +
                            listed(others, "") + " by " + listed(by, "'") +
                            ": a name without '=' stands for all that begin with it",
                        "if the other HCAs are not meant: NCCL_IB_HCA=" + exact_text(ports)});
  }
  return findings;
}

bool HcaFilter::accepts(std::string_view device, int port) const {
  if (list_.entries.empty()) return !list_.is_set;
  return (match(device, port) != nullptr) != list_.exclude;
}

bool HcaFilter::names_in_full(std::string_view device, int port) const {
  if (list_.exclude) return false;
  return std::ranges::any_of(list_.entries, [&](const Entry& entry) {
    return entry.name == device && matches(entry, device, port);
  });
}

const HcaFilter::Entry* HcaFilter::entry_for(std::string_view device, int port) const {
  return list_.exclude ? nullptr : match(device, port);
}

}  // namespace gdr::discovery

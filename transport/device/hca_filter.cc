#include "transport/device/hca_filter.h"

#include <algorithm>
#include <charconv>

namespace gdr::transport {
namespace {

constexpr int kMaxPort = 255;            // verbs counts ports in 8 bits
constexpr int kMaxRailOrPlane = 0x7fff;  // NCCL's properties carry them in 16 bits, signed

struct Field {
  const char* name;
  int low;
  int high;
  int HcaFilter::Entry::*value;
};

constexpr Field kFields[] = {{"port", 1, kMaxPort, &HcaFilter::Entry::port},
                             {"rail", 0, kMaxRailOrPlane, &HcaFilter::Entry::rail},
                             {"plane", 0, kMaxRailOrPlane, &HcaFilter::Entry::plane}};

Status parse_field(std::string_view text, const Field& field, HcaFilter::Entry* entry) {
  int number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < field.low ||
      number > field.high) {
    return fail(Code::kInvalidUsage, std::string("the ") + field.name + " '" + std::string(text) +
                                         "' is not a number from " + std::to_string(field.low) +
                                         " to " + std::to_string(field.high));
  }
  entry->*field.value = number;
  return {};
}

// Parses `[port[:rail[:plane]]]`; an empty field is not given.
Result<HcaFilter::Entry> parse_fields(std::string_view text) {
  HcaFilter::Entry entry;
  for (const Field& field : kFields) {
    size_t colon = text.find(':');
    std::string_view value = text.substr(0, colon);
    if (!value.empty()) {
      if (Status status = parse_field(value, field, &entry); !status) return forward_error(status);
    }
    if (colon == std::string_view::npos) return entry;
    text.remove_prefix(colon + 1);
  }
  return fail(Code::kInvalidUsage, "an entry has more fields than name:port:rail:plane");
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
  list = NameList::parse(text, kMaxEntries);
  for (NameList::Entry& item : std::exchange(list.entries, {})) {
    Result<Entry> entry = parse_fields(item.fields);
    if (!entry) {
      list.add_unread(item.name + ":" + item.fields, entry.error().text);
      if (!list.exclude) continue;
      item.fields.clear();
    }
    filter.entries_.push_back(entry ? *entry : Entry{});
    list.entries.push_back(std::move(item));
  }
  const std::string unread = list.unread_text();
  if (list.names_nothing()) {
    list.notes.push_back(
        {FindingKind::kBadValue, Severity::kError, "", unread + "; no port is used", ""});
  } else if (!unread.empty()) {
    list.notes.push_back({FindingKind::kListEntry, Severity::kWarning, "", unread, ""});
  }
  return filter;
}

bool HcaFilter::matches(size_t entry, std::string_view device, int port) const {
  if (!list_.names(list_.entries[entry], device)) return false;
  return entries_[entry].port == -1 || entries_[entry].port == port;
}

const HcaFilter::Entry* HcaFilter::match(std::string_view device, int port) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (matches(i, device, port)) return &entries_[i];
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
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (!matches(i, device, port)) continue;
      const std::string& name = list_.entries[i].name;
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
    for (const std::string& name : names) exact.entries.push_back({name, entry.fields});
  }
  return exact.to_string();
}

Findings HcaFilter::findings_on(const Ports& ports) const {
  Findings findings;
  std::vector<std::string> unmatched;
  for (size_t i = 0; i < entries_.size() && !ports.empty(); ++i) {
    const bool any = std::any_of(ports.begin(), ports.end(), [&](const auto& port) {
      return matches(i, port.first, port.second);
    });
    const NameList::Entry& entry = list_.entries[i];
    if (!any) unmatched.push_back(entry.name + (entry.fields.empty() ? "" : ":") + entry.fields);
  }
  if (!unmatched.empty()) {
    std::set<std::string> hcas;
    for (const auto& port : ports) hcas.insert(port.first);
    const bool has_effect = list_.exclude || unmatched.size() < entries_.size();
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
  if (entries_.empty()) return !list_.names_nothing();
  return (match(device, port) != nullptr) != list_.exclude;
}

bool HcaFilter::names_in_full(std::string_view device, int port) const {
  if (list_.exclude) return false;
  for (size_t i = 0; i < entries_.size(); ++i) {
    bool same_port = entries_[i].port == -1 || entries_[i].port == port;
    if (list_.entries[i].name == device && same_port) return true;
  }
  return false;
}

std::string to_string(const SkippedPort& skipped) {
  return skipped.port.empty() ? skipped.reason : skipped.port + " " + skipped.reason;
}

const HcaFilter::Entry* HcaFilter::entry_for(std::string_view device, int port) const {
  return list_.exclude ? nullptr : match(device, port);
}

}  // namespace gdr::transport

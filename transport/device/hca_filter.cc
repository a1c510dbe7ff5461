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

std::vector<std::string> HcaFilter::entries_without_port(
    const std::vector<std::pair<std::string, int>>& ports) const {
  std::vector<std::string> unmatched;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const bool any = std::any_of(ports.begin(), ports.end(), [&](const auto& port) {
      return matches(i, port.first, port.second);
    });
    if (any) continue;
    const NameList::Entry& entry = list_.entries[i];
    unmatched.push_back(entry.fields.empty() ? entry.name : entry.name + ":" + entry.fields);
  }
  return unmatched;
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

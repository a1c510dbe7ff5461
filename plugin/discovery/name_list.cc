#include "plugin/discovery/name_list.h"

#include <algorithm>

namespace gdr::discovery {
namespace {

constexpr char kNoName[] =
    "a name has no blanks or control characters, and '^' and '=' stand once, at the start of the "
    "list, '^' before '='";

bool is_control(unsigned char c) { return c < 0x20 || c == 0x7f; }
bool is_blank(unsigned char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_no_part(unsigned char c) { return c == ' ' || c == '^' || c == '=' || is_control(c); }

std::string_view trim(std::string_view text) {
  const auto begin = std::ranges::find_if_not(text, is_blank);
  auto end = text.end();
  while (end != begin && is_blank(end[-1])) --end;
  return {begin, end};
}

// Appends an entry, without blanks around it, if it has a name that can be read.
void add_entry(std::string_view entry, NameList* list) {
  const size_t colon = std::min(entry.find(':'), entry.size());
  const std::string_view name = entry.substr(0, colon);
  if (std::ranges::none_of(name, is_no_part)) {
    const std::string_view fields = entry.substr(std::min(colon + 1, entry.size()));
    if (!name.empty())
      list->entries.push_back({.name = std::string(name), .fields = std::string(fields)});
    return;
  }
  list->add_unread(entry, kNoName);
  if (!list->exclude) return;
  // To ignore an exclusion would use what the user wants to be left out.
  const auto begin = std::ranges::find_if_not(name, is_no_part);
  const auto end = std::find_if(begin, name.end(), is_no_part);
  if (begin != end) list->entries.push_back({.name = std::string(begin, end), .fields = ""});
}

}  // namespace

void NameList::add_unread(std::string_view entry, const std::string& reason) {
  unread += (unread.empty() ? "'" : ", '") + std::string(entry) + "' (" + reason + ")";
  std::ranges::replace_if(unread, is_control, '?');
}

Findings NameList::notes(const std::string& thing) const {
  if (!is_set || (unread.empty() && !entries.empty())) return {};
  std::string text = "the list has no names";
  if (!unread.empty()) {
    text = (exclude ? "all is excluded that is named by entries which cannot be read: "
                    : "entries that cannot be read are ignored: ") +
           unread;
  }
  if (!entries.empty()) return {{FindingKind::kListEntry, Severity::kWarning, "", text, ""}};
  return {{FindingKind::kBadValue, Severity::kError, "", text + "; no " + thing + " is used", ""}};
}

NameList NameList::parse(std::string_view all) {
  NameList list;
  list.is_set = !all.empty();
  std::string_view text = trim(all);
  list.exclude = text.starts_with('^');
  text.remove_prefix(list.exclude ? 1 : 0);
  list.exact = text.starts_with('=');
  text.remove_prefix(list.exact ? 1 : 0);
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    add_entry(trim(text.substr(begin, end - begin)), &list);
    begin = end + 1;
  }
  // As in NCCL (parseStringList), commas alone, as of empty shell variables, are no list.
  const bool has_prefix = list.exclude || list.exact;
  if (!text.empty() && list.entries.empty() && list.unread.empty() && !has_prefix) {
    list.is_set = false;
  }
  return list;
}

bool NameList::names(const Entry& entry, std::string_view name) const {
  return exact ? name == entry.name : name.starts_with(entry.name);
}

std::string NameList::to_string() const {
  if (is_set && entries.empty()) return "^";
  std::string text = std::string(exclude ? "^" : "") + (exact ? "=" : "");
  for (size_t i = 0; i < entries.size(); ++i) {
    text += (i > 0 ? "," : "") + entries[i].name;
    if (!entries[i].fields.empty()) text += ":" + entries[i].fields;
  }
  return text;
}

}  // namespace gdr::discovery

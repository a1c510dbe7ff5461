#include "transport/device/name_list.h"

#include <algorithm>

namespace gdr::transport {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view trim(std::string_view text) {
  size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool has_control_character(std::string_view text) {
  for (unsigned char c : text) {
    if (c < 0x20 || c == 0x7f) return true;
  }
  return false;
}

Status check_name(std::string_view name) {
  if (name.find_first_of("^=") != std::string_view::npos) {
    return fail(
        Code::kInvalidUsage,
        "'^' and '=' apply to the whole list: write them once, at its start, '^' before '='");
  }
  if (has_control_character(name) || name.find_first_of(kBlanks) != std::string_view::npos) {
    return fail(Code::kInvalidUsage, "a name has a blank or a control character in it");
  }
  return {};
}

void add_note(FindingKind kind, const std::string& text, NameList* list) {
  const auto is_same = [&](const Finding& note) { return note.text == text; };
  if (std::none_of(list->notes.begin(), list->notes.end(), is_same)) {
    list->notes.push_back({kind, Severity::kWarning, "", text, ""});
  }
}

// Appends the entry in `item`, or a note if it has no name.
Status add_entry(std::string_view item, NameList* list) {
  std::string_view entry = trim(item);
  if (entry.size() != item.size() && !entry.empty()) {
    add_note(FindingKind::kListBlanks, "blanks around '" + std::string(entry) + "' are ignored",
             list);
  }
  size_t colon = entry.find(':');
  std::string_view name = entry.substr(0, colon);
  if (name.empty()) {
    add_note(FindingKind::kListEntry, "entries without a name are ignored", list);
    return {};
  }
  if (Status status = check_name(name); !status) return status;
  std::string_view fields = colon == std::string_view::npos ? "" : entry.substr(colon + 1);
  list->entries.push_back({std::string(name), std::string(fields)});
  return {};
}

}  // namespace

Result<NameList> NameList::parse(std::string_view text, size_t max_entries) {
  NameList list;
  text = trim(text);
  if (text.empty()) return list;
  if (text.front() == '^') {
    list.exclude = true;
    text.remove_prefix(1);
  }
  if (!text.empty() && text.front() == '=') {
    list.exact = true;
    text.remove_prefix(1);
  }
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    if (list.entries.size() == max_entries) {
      add_note(FindingKind::kListEntry,
               "entries after the first " + std::to_string(max_entries) + " are ignored", &list);
      break;
    }
    if (Status status = add_entry(text.substr(begin, end - begin), &list); !status) {
      return forward_error(status);
    }
    begin = end + 1;
  }
  if (list.entries.empty() && (list.exclude || list.exact)) {
    return fail(Code::kInvalidUsage, "the list has no names");
  }
  return list;
}

bool NameList::names(const Entry& entry, std::string_view name) const {
  return exact ? name == entry.name : name.substr(0, entry.name.size()) == entry.name;
}

std::string NameList::to_string() const {
  std::string text = std::string(exclude ? "^" : "") + (exact ? "=" : "");
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i > 0) text += ",";
    text += entries[i].name;
    if (!entries[i].fields.empty()) text += ":" + entries[i].fields;
  }
  return text;
}

}  // namespace gdr::transport

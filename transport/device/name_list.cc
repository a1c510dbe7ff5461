#include "transport/device/name_list.h"

#include <algorithm>

#include "base/result.h"

namespace gdr::transport {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view trim(std::string_view text) {
  size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool is_control(unsigned char c) { return c < 0x20 || c == 0x7f; }

Status check_name(std::string_view name) {
  if (name.find_first_of("^=") != std::string_view::npos) {
    return fail(
        Code::kInvalidUsage,
        "'^' and '=' apply to the whole list: write them once, at its start, '^' before '='");
  }
  if (std::ranges::any_of(name, is_control) ||
      name.find_first_of(kBlanks) != std::string_view::npos) {
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

// Appends the entry in `item`, or a note if it has no name or cannot be read.
void add_entry(std::string_view item, NameList* list) {
  std::string_view entry = trim(item);
  if (entry.size() != item.size() && !entry.empty()) {
    add_note(FindingKind::kListBlanks, "blanks around '" + std::string(entry) + "' are ignored",
             list);
  }
  size_t colon = entry.find(':');
  std::string_view name = entry.substr(0, colon);
  if (name.empty()) {
    return add_note(FindingKind::kListEntry, "entries without a name are ignored", list);
  }
  if (Status status = check_name(name); !status) {
    list->add_unread(entry, status.error().text);
    // To ignore an exclusion would use what the user wants to be left out.
    name.remove_prefix(std::min(name.find_first_not_of("^= \t\r\n"), name.size()));
    name = name.substr(0, name.find_first_of("^= \t\r\n"));
    if (list->exclude && !name.empty()) list->entries.push_back({std::string(name), ""});
    return;
  }
  std::string_view fields = colon == std::string_view::npos ? "" : entry.substr(colon + 1);
  list->entries.push_back({std::string(name), std::string(fields)});
}

}  // namespace

void NameList::add_unread(std::string_view entry, const std::string& reason) {
  unread += (unread.empty() ? "'" : ", '") + std::string(entry) + "' (" + reason + ")";
  std::ranges::replace_if(unread, is_control, '?');
}

bool NameList::names_nothing() const {
  return entries.empty() && (exclude || exact || !unread.empty());
}

std::string NameList::unread_text() const {
  if (unread.empty()) return names_nothing() ? "the list has no names" : "";
  return (exclude ? "all is excluded that is named by entries which cannot be read: "
                  : "entries that cannot be read are ignored: ") +
         unread;
}

NameList NameList::parse(std::string_view all, size_t max_entries) {
  NameList list;
  if (all.empty()) return list;
  std::string_view text = trim(all);
  list.exclude = text.starts_with('^');
  text.remove_prefix(list.exclude ? 1 : 0);
  list.exact = text.starts_with('=');
  text.remove_prefix(list.exact ? 1 : 0);
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    if (list.entries.size() == max_entries) {
      add_note(FindingKind::kListEntry,
               "entries after the first " + std::to_string(max_entries) + " are ignored", &list);
      break;
    }
    add_entry(text.substr(begin, end - begin), &list);
    begin = end + 1;
  }
  // NCCL takes blanks for a name, which nothing has.
  const bool is_blank = list.entries.empty() && list.unread.empty();
  if (is_blank && all.find_first_of(kBlanks) != all.npos)
    list.add_unread(all, "there are only blanks");
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

// The grammar of lists of names that NCCL_IB_HCA and NCCL_SOCKET_IFNAME share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/finding.h"

namespace gdr::discovery {

// A list `[^][=]entry(,entry)*` of entries `name[:fields]`. Two modifiers in front apply to all of
// it:
//   eth       names that start with "eth": eth0, eth1; "mlx5_1" matches mlx5_10, too
//   =eth0     '=': only the whole name eth0
//   ^eth,ib   '^': every name but those that start with "eth" or "ib"
//   ^=eth0    both, in this order: every name but eth0
// Blanks around entries, and entries without a name, are ignored.
struct NameList {
  struct Entry {
    std::string name;
    std::string fields;  // the text after the first ':', which the user of the list interprets
    int port = -1;       // what HcaFilter reads in it; -1: not given, every port
    int rail = -1;
    int plane = -1;
  };

  bool is_set = false;   // whether there is a list; one without entries names nothing
  bool exclude = false;  // '^'
  bool exact = false;    // '='
  std::vector<Entry> entries;
  std::string unread;  // the entries that cannot be read, each with the reason: "'a b' (...)"

  // An entry cannot be read if its name has a blank or a control character, or if a modifier is not
  // at the list's start: it is left out, but a list of exclusions excludes all that it names.
  static NameList parse(std::string_view all);

  // For the user of the list, whose entries have further rules.
  void add_unread(std::string_view entry, const std::string& reason);
  // What became of `unread`, for the user; an error where the list names nothing, so that no such
  // thing is used ("port").
  Findings notes(const std::string& thing) const;

  // Whether `entry` of this list matches `name`, regardless of `exclude`.
  bool names(const Entry& entry, std::string_view name) const;
  // The list in the grammar above, without what was ignored; "^" where it names nothing.
  std::string to_string() const;
};

}  // namespace gdr::discovery

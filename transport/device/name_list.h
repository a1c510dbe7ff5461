// The list grammar that NCCL_IB_HCA and NCCL_SOCKET_IFNAME share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gdr::transport {

// `[^][=]entry(,entry)*`, entry = `name[:fields]`. '^' turns the list into one of exclusions, '='
// asks for whole names; without it a name is a prefix, so that "mlx5_1" also names "mlx5_10".
struct NameList {
  struct Entry {
    std::string name;
    std::string fields;  // what follows the first ':', unread
  };

  bool exclude = false;
  bool exact = false;
  std::vector<Entry> entries;
  std::vector<std::string> notes;  // what was ignored, for the user

  // Entries past max_entries are dropped with a note, as NCCL drops them silently.
  static Result<NameList> parse(std::string_view text, size_t max_entries);

  bool names(const Entry& entry, std::string_view name) const;
  // In the grammar above, normalised; fields included.
  std::string to_string() const;
};

}  // namespace gdr::transport

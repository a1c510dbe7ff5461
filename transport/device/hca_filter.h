// NCCL_IB_HCA: which devices and ports a user allows, with the rail and plane he gives them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "transport/device/name_list.h"

namespace gdr::transport {

// Grammar: `[^][=]entry(,entry)*`, entry = `name[:port[:rail[:plane]]]`. A name is a prefix unless
// '=' stands before the list. Unset accepts everything.
class HcaFilter {
 public:
  static constexpr size_t kMaxEntries = 32;  // NCCL's

  struct Entry {
    int port = -1;  // -1: every port
    int rail = -1;  // -1: not given
    int plane = -1;
  };

  HcaFilter() = default;  // accepts everything
  static Result<HcaFilter> parse(std::string_view text);

  bool accepts(std::string_view device, int port) const;
  // The entry that lets this port in, for its rail and plane; null where none is meant by name
  // (no list, or a list of exclusions).
  const Entry* entry_for(std::string_view device, int port) const;
  // The list lets this port in by the device's whole name, not by a prefix of it.
  bool names_in_full(std::string_view device, int port) const;
  // What parse() ignored, for the user.
  const std::vector<std::string>& notes() const { return list_.notes; }
  std::string to_string() const { return list_.to_string(); }

 private:
  const Entry* match(std::string_view device, int port) const;

  NameList list_;
  std::vector<Entry> entries_;  // parallel to list_.entries
};

}  // namespace gdr::transport

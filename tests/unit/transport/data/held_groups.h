// Groups on the two kinds of connection that chain their messages.
#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

#include "tests/unit/transport/grouped_messages.h"
#include "tests/unit/transport/spread_rails.h"

namespace gdr::transport {

// One rail, and no recovery.
struct GroupsOfOneRail : GroupedMessages<CommPair> {
  static constexpr char kName[] = "OneRail";

  explicit GroupsOfOneRail(const TransportOptions& options = test_options())
      : GroupedMessages(options), sender_end_(end_of(*pair.sender)) {}

  // What was posted on the sender's QPs, which may be gone.
  std::vector<fake_verbs::Posted> posted() { return pair.posted_by(sender_end_); }
  void exchange() { pair.exchange(2); }

 private:
  wire::EndPoint sender_end_;
};

// One active rail and one that stands by, and nothing to do for the recovery.
struct GroupsWithStandby : GroupedMessages<SpreadRails> {
  static constexpr char kName[] = "WithStandby";

  explicit GroupsWithStandby(const TransportOptions& options = test_options(),
                             const RailHcas& hcas = {})
      : GroupedMessages(1, 1, options, local_socket_pair(), hcas) {
    EXPECT_TRUE(pair.poll_until([&] { return link().is_quiet(); }));
    pair.exchange({8});
    EXPECT_TRUE(pair.poll_until([&] { return link().is_quiet(); }));
    pair.verbs.forget_posted();
  }

  // What was posted on the sender's pairs, or on one of them, the recovery's own requests aside.
  std::vector<fake_verbs::Posted> posted(int on_pair = -1) {
    std::vector<fake_verbs::Posted> some;
    std::ranges::copy_if(pair.verbs.posted(), std::back_inserter(some), [&](const auto& work) {
      const WorkId id = decode_work_id(work.wr_id);
      return id.kind == WorkKind::kChunk && (on_pair < 0 || static_cast<int>(id.pair) == on_pair);
    });
    return some;
  }
  void exchange() { pair.exchange({8, 1 << 20}); }
};

}  // namespace gdr::transport

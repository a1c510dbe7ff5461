#include "transport/watch/room_maker.h"

#include <algorithm>
#include <cerrno>
#include <thread>

#include "transport/memory/registered_block.h"
#include "transport/memory/system_facts.h"

namespace gdr::transport {
namespace {

// For how long queue pairs of standby pairs are waited for, in all and of one connection, and how
// often is looked.
constexpr std::chrono::milliseconds kRoomPatience{1000};
constexpr std::chrono::milliseconds kRoomPatienceOfOne{100};
constexpr std::chrono::milliseconds kRoomPause{10};

// How many standby pairs give way to one connection or buffer at most, and one more for so many
// bytes of a buffer, which are fewer than a rail's pair and tables hold of the memory that may be
// locked.
constexpr int kMostRooms = 16;
constexpr size_t kBytesOfRoom = size_t{64} << 10;

}  // namespace

// hca: null for any. kAwaited: pairs were given up, and none could be destroyed in time.
Room RoomMaker::gives_way(const HcaContext* hca, bool if_busy, Clock::time_point deadline) {
  Room best = Room::kNone;
  for (const auto& recovery : links_.recoveries()) {
    if (if_busy && Clock::now() >= deadline) break;
    const Clock::time_point until = std::min(deadline, Clock::now() + kRoomPatienceOfOne);
    Room room = recovery->standby().give_way(hca, if_busy);
    while (room == Room::kAwaited && Clock::now() < until) {
      std::this_thread::sleep_for(kRoomPause);
      room = recovery->standby().give_way(hca, if_busy);
    }
    if (room == Room::kMade) return room;
    if (room == Room::kAwaited) best = room;
  }
  return best;
}

// Of a handshake that is in another thread's call, which has given nothing up, for a short time.
Room RoomMaker::handshake_gives_way(const HcaContext* hca, bool waits) {
  if (handshakes_ == nullptr) return Room::kNone;
  const Clock::time_point until = Clock::now() + kRoomPatienceOfOne;
  for (;;) {
    const Room room = handshakes_(hca);
    if (room != Room::kAwaited) return room;
    if (!waits || Clock::now() >= until) return Room::kNone;
    std::this_thread::sleep_for(kRoomPause);
  }
}

RoomOn RoomMaker::make_room(const HcaContext& hca, const std::string& lack, bool waits,
                            bool elsewhere) {
  const Clock::time_point deadline = Clock::now() + kRoomPatience;
  RoomOn made = RoomOn::kNone;
  bool given_up = false;
  const auto ask = [&](const HcaContext* of, bool if_busy, RoomOn there) {
    if (made != RoomOn::kNone) return;
    Room room = gives_way(of, if_busy, deadline);
    if (room == Room::kNone && !if_busy) room = handshake_gives_way(of, waits);
    if (room == Room::kMade) made = there;
    given_up = given_up || room != Room::kNone;
  };
  for (bool if_busy : {false, true}) {
    if (if_busy && !waits) break;
    ask(&hca, if_busy, RoomOn::kSameHca);
    if (elsewhere) ask(nullptr, if_busy, RoomOn::kOtherHca);
  }
  if (!given_up) return made;
  TextAndFix parts = split_fix(lack);
  if (parts.fix.empty()) parts.fix = "raise what has run out, or set GDR_NCCL_STANDBY_RAILS=0";
  parts.text += ". Standby rails give way: the connections concerned have no failover any more";
  failures_.warn_once("room: " + hca.name(), to_string(parts));
  return made;
}

// Pages that nobody has used count as all others do once they are registered. What is lacking for
// another reason than the limit is found by those who need it.
Status RoomMaker::check_spare_memory(const HcaContext& hca, const ConnectionOptions& options) {
  const size_t bytes = options.spare_memory;
  if (bytes == 0 || memory_suffices_.fetch_sub(1) > 0) return {};
  const auto memory = map_pages<std::byte>(bytes);
  const Result<verbs::UniqueMr> registered = register_block(hca, memory.get(), bytes);
  if (!registered && registered.error().sys_errno == ENOMEM) {
    return fail_making(hca,
                       "less than " + std::to_string(bytes >> 20) +
                           " MiB would be left for others to lock, as a registration on " +
                           hca.name() + " has shown",
                       ENOMEM);
  }
  memory_suffices_ = options.connections_per_memory_check - 1;
  return {};
}

// EOVERFLOW: irdma's.
bool RoomRequests::is_shared_lack(int err) {
  return err == ENOMEM || err == EAGAIN || err == ENOSPC || err == EOVERFLOW;
}

bool RoomRequests::is_lack(int err) { return err == EINVAL || is_shared_lack(err); }

// HCAs share the limit on locked memory, which ENOMEM may mean, and nothing else. Where a pair of
// another HCA has given way in vain, something else is lacking.
bool RoomRequests::make_room(const Device& device, const Error& lack, bool waits) {
  if (!is_shared_lack(lack.sys_errno) || requests_++ >= kMostRooms) return false;
  const bool elsewhere = lack.sys_errno == ENOMEM && lack.text != lacked_elsewhere_;
  const RoomOn made = room_.make_room(*device.hca, lack.text, waits, elsewhere);
  if (made == RoomOn::kOtherHca) lacked_elsewhere_ = lack.text;
  return made != RoomOn::kNone;
}

// A buffer may take the place of several on standby rails.
bool RoomRequests::make_room_to_register(const HcaContext& hca, const Error& lack, size_t bytes,
                                         size_t n) const {
  if (lack.sys_errno != ENOMEM || n >= kMostRooms + bytes / kBytesOfRoom) return false;
  return room_.make_room(hca, lack.text, /*waits=*/true, /*elsewhere=*/true) != RoomOn::kNone;
}

}  // namespace gdr::transport

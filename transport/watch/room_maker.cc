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

// How many standby pairs give way to one connection or buffer at most, as what lacks more lacks
// something else; and one more for so many bytes of a buffer, which are fewer than a rail's pair
// and tables hold of the memory that may be locked.
constexpr size_t kMostRooms = 16;
constexpr size_t kBytesOfRoom = size_t{64} << 10;

// Asks again while a pair that was given up has yet to be destroyed, until that time.
template <class Ask>
Room await(Ask ask, Clock::time_point until) {
  for (;;) {
    const Room room = ask();
    if (room != Room::kAwaited || Clock::now() >= until) return room;
    std::this_thread::sleep_for(kRoomPause);
  }
}

}  // namespace

// kAwaited: a pair was given up, and none could be destroyed in time.
Room RoomMaker::gives_way(const HcaContext* hca, bool if_busy) {
  const Clock::time_point deadline = Clock::now() + kRoomPatience;
  Room best = Room::kNone;
  for (const auto& recovery : links_.recoveries()) {
    if (if_busy && Clock::now() >= deadline) break;
    const Room room = await([&] { return recovery->standby().give_way(hca, if_busy); },
                            std::min(deadline, Clock::now() + kRoomPatienceOfOne));
    if (room == Room::kMade) return room;
    best = std::max(best, room);
  }
  return best;
}

// A handshake that is in another thread's call has given nothing up, and is waited for all the
// same.
Room RoomMaker::ask(const HcaContext* on, bool waits) {
  Room room = gives_way(on, /*if_busy=*/false);
  if (room == Room::kMade) return room;
  const Clock::duration patience = waits ? kRoomPatienceOfOne : Clock::duration::zero();
  const Room made = await([&] { return handshakes_(on); }, Clock::now() + patience);
  if (made == Room::kMade) return made;
  return waits ? gives_way(on, /*if_busy=*/true) : room;
}

// HCAs share the limit on locked memory, which ENOMEM may mean, and nothing else. Pairs of others
// are asked where none of this HCA is left. A connection's objects are small: where one of another
// HCA has given way in vain, something else is lacking.
bool RoomMaker::make_room(const HcaContext& hca, const Error& lack, RoomRequests* so_far,
                          size_t bytes, bool waits) {
  const size_t most = kMostRooms + bytes / kBytesOfRoom;
  if (!is_shared_lack(lack.sys_errno) || so_far->count++ >= most) return false;
  Room room = ask(&hca, waits);
  const bool helps = bytes > 0 || lack.text != so_far->elsewhere;
  if (room == Room::kNone && lack.sys_errno == ENOMEM && helps) {
    so_far->elsewhere = lack.text;
    room = ask(nullptr, waits);
  }
  if (room == Room::kNone) return false;
  TextAndFix parts = split_fix(lack.text);
  if (parts.fix.empty()) parts.fix = "raise what has run out, or set GDR_NCCL_STANDBY_RAILS=0";
  parts.text += ". Standby rails give way: the connections concerned have no failover any more";
  failures_.warn_once("room: " + hca.name(), to_string(parts));
  return room == Room::kMade;
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
bool RoomMaker::is_shared_lack(int err) {
  return err == ENOMEM || err == EAGAIN || err == ENOSPC || err == EOVERFLOW;
}

}  // namespace gdr::transport

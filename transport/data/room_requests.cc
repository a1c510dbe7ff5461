#include "transport/data/room_requests.h"

#include <cerrno>

namespace gdr::transport {
namespace {

// How many standby pairs give way to one connection or buffer at most, and one more for so many
// bytes of a buffer, which are fewer than a rail's pair and tables hold of the memory that may be
// locked.
constexpr int kMostRooms = 16;
constexpr size_t kBytesOfRoom = size_t{64} << 10;

}  // namespace

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
  const RoomOn made = watcher_->room().make_room(*device.hca, lack.text, waits, elsewhere);
  if (made == RoomOn::kOtherHca) lacked_elsewhere_ = lack.text;
  return made != RoomOn::kNone;
}

// A buffer may take the place of several on standby rails.
bool RoomRequests::make_room_to_register(const HcaContext& hca, const Error& lack, size_t bytes,
                                         size_t n) const {
  if (lack.sys_errno != ENOMEM || n >= kMostRooms + bytes / kBytesOfRoom) return false;
  return watcher_->room().make_room(hca, lack.text, /*waits=*/true, /*elsewhere=*/true) !=
         RoomOn::kNone;
}

}  // namespace gdr::transport

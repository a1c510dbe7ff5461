// C8x: messages of 1 GiB and more.
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <set>
#include <utility>

#include "base/unique_fd.h"
#include "tools/conformance/case.h"
#include "tools/conformance/exchange.h"

namespace gdr::tools {
namespace {
constexpr size_t kUnit = size_t{2} << 20;
constexpr size_t kBorders = size_t{256} << 20;
constexpr char kBlank = 0x3c;
constexpr uint64_t kStream = 80;  // of the patterns, unlike those of other cases

// The units that have pages of their own, by their number.
std::set<size_t> own_units(size_t bytes) {
  std::set<size_t> units{0, bytes / kUnit};  // the last one has the bytes past the message
  auto add_around = [&](size_t at) {
    units.insert(at / kUnit);
    if (at > 0) units.insert((at - 1) / kUnit);
  };
  for (size_t at = kBorders; at < bytes; at += kBorders) add_around(at);
  if (bytes > INT_MAX) add_around(INT_MAX);
  add_around(bytes);
  return units;
}

// A message buffer of gigabytes that needs little memory: most of its address range shows the same
// pages, and only the windows have pages of their own.
class LargeBuffer {
 public:
  // Windows are at both ends of the message, at every quarter of a gibibyte, and around 2^31 - 1
  // bytes, where ints overflow.
  static Result<LargeBuffer> create(size_t bytes);
  LargeBuffer(LargeBuffer&& other) noexcept;
  LargeBuffer& operator=(LargeBuffer&&) = delete;
  ~LargeBuffer();

  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

  // Fills each window with data of its own, which depends on the seed.
  void fill(uint64_t seed);
  // Returns an empty text if the windows have the data of fill(seed) and the bytes past the message
  // are as create() left them; else a description of the first wrong byte.
  std::string check(uint64_t seed) const;

 private:
  struct Window {
    size_t begin = 0;
    size_t bytes = 0;  // of the message: fewer than its pages have at the end
  };
  LargeBuffer() = default;

  char* data_ = nullptr;
  size_t bytes_ = 0;
  size_t mapped_ = 0;
  std::vector<Window> windows_;
};

LargeBuffer::LargeBuffer(LargeBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_),
      mapped_(other.mapped_),
      windows_(std::move(other.windows_)) {}

LargeBuffer::~LargeBuffer() {
  if (data_ != nullptr) munmap(data_, mapped_);
}

Result<LargeBuffer> LargeBuffer::create(size_t bytes) {
  LargeBuffer made;
  made.bytes_ = bytes;
  made.mapped_ = (bytes / kUnit + 1) * kUnit;
  std::set<size_t> own = own_units(bytes);
  UniqueFd file(memfd_create("conformance", MFD_CLOEXEC));
  // The first unit of the file is the shared one.
  auto file_bytes = static_cast<off_t>((own.size() + 1) * kUnit);
  if (!file.valid() || ftruncate(file.get(), file_bytes) != 0) {
    return fail_errno(Code::kSystem, "memfd_create", errno);
  }
  void* range =
      mmap(nullptr, made.mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return fail_errno(Code::kSystem, "mmap", errno);
  made.data_ = static_cast<char*>(range);
  size_t next_in_file = kUnit;
  for (size_t unit = 0; unit * kUnit < made.mapped_; ++unit) {
    bool is_own = own.count(unit) > 0;
    size_t begin = unit * kUnit;
    void* at = mmap(made.data_ + begin, kUnit, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                    file.get(), static_cast<off_t>(is_own ? next_in_file : 0));
    if (at == MAP_FAILED) return fail_errno(Code::kSystem, "mmap", errno);
    if (!is_own) continue;
    next_in_file += kUnit;
    made.windows_.push_back(Window{begin, std::min(kUnit, bytes - begin)});
    std::memset(at, kBlank, kUnit);
  }
  return made;
}

void LargeBuffer::fill(uint64_t seed) {
  for (const Window& window : windows_) {
    Pattern(seed, kStream, window.begin).fill(data_ + window.begin, window.bytes);
  }
}

std::string LargeBuffer::check(uint64_t seed) const {
  for (const Window& window : windows_) {
    Pattern pattern(seed, kStream, window.begin);
    size_t wrong = pattern.first_mismatch(data_ + window.begin, window.bytes);
    if (wrong < window.bytes) {
      return fmt::format("byte {} of {} is wrong", window.begin + wrong, bytes_);
    }
  }
  for (size_t at = bytes_; at < mapped_; ++at) {
    if (data_[at] != kBlank) {
      return fmt::format("the byte {} past the end of the buffer ({} bytes) was overwritten",
                         at - bytes_, bytes_);
    }
  }
  return {};
}

constexpr double kPatienceSeconds = 60;

// Sends 32 MiB, and skips the case where this transfer's speed gives the message more than the
// patience.
void skip_if_slow(Session& s, const TestConnection& connection, size_t bytes) {
  constexpr size_t kTrialBytes = size_t{4} << 20;
  constexpr size_t kTrials = 8;
  Clock::time_point start = Clock::now();
  exchange(s, connection, std::vector<Group>(kTrials, single(kTrialBytes)));
  std::chrono::duration<double> took = Clock::now() - start;
  double expected = took.count() * static_cast<double>(bytes / (kTrials * kTrialBytes));
  std::string slow = expected > kPatienceSeconds / 2 ? fmt::format("{:.0f}", expected) : "";
  for (const std::string& one : s.allgather("duration of the trial", slow)) {
    if (!one.empty()) s.skip(fmt::format("{} bytes would take {} s here", bytes, one));
  }
}

// Registers the buffer. The limit of locked memory is the machine's, not the plugin's.
CheckedRegistration registered(Session& s, void* comm, const LargeBuffer& buffer) {
  void* trial = nullptr;
  auto result = s.call("regMr", [&] {
    return s.net().reg_mr(comm, buffer.data(), buffer.bytes(), abi::kPtrHost, &trial);
  });
  rlimit locked{};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  if (result != abi::ncclSuccess && locked.rlim_cur < 2 * buffer.bytes() && geteuid() != 0) {
    s.skip(fmt::format("ulimit -l is below twice {} bytes", buffer.bytes()));
  }
  s.require(result == abi::ncclSuccess, "regMr returned {}", describe(result));
  s.must("deregMr", [&] { return s.net().dereg_mr(comm, trial); });
  return CheckedRegistration(s, comm, buffer.data(), buffer.bytes());
}

void run_patiently(Session& s, Traffic& traffic) {
  Deadline deadline(s, std::max(kPatienceSeconds, s.options().timeout_seconds));
  while (!traffic.poll()) {
    s.require(deadline.wait(), "the message did not arrive in {:.0f} s", kPatienceSeconds);
  }
}

// test() reports sizes as ints in every version. NCCL only asks whether any byte has arrived, as it
// decides by that whether it must flush (src/transport/net.cc, recvProxyProgress).
void check_reported(Session& s, const Op& op, size_t bytes) {
  if (bytes > INT_MAX) {
    s.require(op.actual[0] > 0, "test() reported size {} of a message of {} bytes", op.actual[0],
              bytes);
  } else {
    s.require(op.actual[0] == static_cast<int>(bytes),
              "test() reported size {} of a message of {} bytes", op.actual[0], bytes);
  }
}

template <size_t bytes>
void send_one(Session& s) {
#ifdef __SANITIZE_THREAD__
  s.skip("the thread sanitizer needs several times the message's size of memory");
#endif
  s.open();
  size_t limit = std::min(s.contract().largest_message, s.properties(s.dev()).max_p2p_bytes);
  if (limit < bytes) {
    s.skip(fmt::format("version {} of this plugin carries at most {} bytes", s.contract().version,
                       limit));
  }
  auto buffer = LargeBuffer::create(bytes);
  if (!buffer) s.skip(buffer.error().text);
  TestConnection connection = open_connection(s, 0, 1);
  skip_if_slow(s, connection, bytes);
  bool sends = s.rank() == 0;
  void* comm = connection.comm();
  CheckedRegistration registration = registered(s, comm, *buffer);
  if (sends) buffer->fill(s.options().seed);
  Traffic traffic(s, {});
  const Op& op =
      traffic.add(single_op(connection.kind(), comm, buffer->data(), bytes, registration.get()));
  run_patiently(s, traffic);
  if (!sends) {
    check_reported(s, op, bytes);
    std::string damage = buffer->check(s.options().seed);
    s.require(damage.empty(), "{}", damage);
  }
  s.meet("the message has arrived");
}

// NCCL_MAX_NET_SIZE of src/include/collectives.h: the largest message of a registered user buffer.
constexpr size_t kOneGibibyte = size_t{1} << 30;
constexpr size_t kAboveIntMax = (size_t{1} << 31) + 1000003;
constexpr size_t kAboveUintMax = (size_t{1} << 32) + 3000001;
}  // namespace

ConformanceCases large_cases() {
  return {
      {"C80-one-gibibyte", "a message of 1 GiB, the largest of NCCL, arrives whole", 2,
       &send_one<kOneGibibyte>},
      {"C81-above-int-max",
       "a message above 2^31 bytes arrives whole where maxP2pBytes (v9) allows it, and test does "
       "not report it as empty or negative",
       2, &send_one<kAboveIntMax>},
      {"C82-above-uint-max",
       "a message above 2^32 bytes arrives whole where maxP2pBytes (v9) allows it", 2,
       &send_one<kAboveUintMax>},
  };
}

}  // namespace gdr::tools

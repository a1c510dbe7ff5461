// Runs a fuzz target without libFuzzer, in any build:
//   fuzz_TARGET FOLDER MUTATIONS
// runs each file of the folder, and then so many mutations of them, the same ones each time. Where
// one ends the process, its bytes are in fuzz_TARGET.input, in the current folder.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>

#include "base/unique_fd.h"
#include "tests/fuzz/allocation_limit.h"
#include "tests/fuzz/target.h"

namespace gdr::fuzz {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

constexpr size_t kMaxInput = 4096;  // bytes, as libFuzzer's default

Bytes read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The file of the input that is running. It stays open: to write it anew each time takes the file
// system a hundred times as long as most inputs run.
class CurrentInput {
 public:
  explicit CurrentInput(fs::path path)
      : path_(std::move(path)), fd_(open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) {
    check(fd_.valid(), "cannot write " + path_.string());
  }
  void set(const Bytes& bytes) const {
    const bool whole = pwrite(fd_.get(), bytes.data(), bytes.size(), 0) == std::ssize(bytes) &&
                       ftruncate(fd_.get(), static_cast<off_t>(bytes.size())) == 0;
    check(whole, "cannot write " + path_.string());
  }
  void remove() const { fs::remove(path_); }

 private:
  const fs::path path_;
  const UniqueFd fd_;
};

// In the order of their names, so that every run mutates the same.
std::map<std::string, Bytes> read_corpus(const fs::path& folder) {
  std::map<std::string, Bytes> corpus;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    corpus[entry.path().filename()] = read_file(entry.path());
  }
  return corpus;
}

// Changes inputs as libFuzzer's simplest mutations do.
class Mutator {
 public:
  explicit Mutator(std::vector<Bytes> corpus) : corpus_(std::move(corpus)) {}

  Bytes next() {
    Bytes bytes = any();
    for (size_t left = 1 + below(4); left > 0; --left) change(&bytes);
    bytes.resize(std::min(bytes.size(), kMaxInput));
    return bytes;
  }

 private:
  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  const Bytes& any() { return corpus_[below(corpus_.size())]; }

  void change(Bytes* bytes) {
    static constexpr uint8_t kInteresting[] = {0, 1, 0x7f, 0x80, 0xff, 8, 16, 128};
    if (bytes->empty()) bytes->push_back(0);
    const size_t at = below(bytes->size());
    const auto here = bytes->begin() + static_cast<std::ptrdiff_t>(at);
    const auto some = static_cast<std::ptrdiff_t>(below(std::min<size_t>(bytes->size() - at, 16)));
    switch (below(7)) {
      case 0:
        *here ^= static_cast<uint8_t>(1u << below(8));
        break;
      case 1:
        *here = static_cast<uint8_t>(random_());
        break;
      case 2:
        *here = kInteresting[below(std::size(kInteresting))];
        break;
      case 3:
        std::fill(here, here + some, uint8_t{0xff});
        break;
      case 4:
        bytes->erase(here, here + some + 1);
        break;
      case 5: {  // repeats a part
        const Bytes part(here, here + some + 1);
        bytes->insert(here, part.begin(), part.end());
        break;
      }
      default: {  // goes on as another input does
        const Bytes& other = any();
        const size_t from = below(other.size());
        bytes->erase(here, bytes->end());
        bytes->insert(bytes->end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
        break;
      }
    }
  }

  std::vector<Bytes> corpus_;
  std::mt19937_64 random_{1};
};

int replay(const Target& target, const fs::path& folder, int mutations) {
  std::vector<Bytes> corpus;
  for (auto& [name, bytes] : read_corpus(folder)) {
    std::printf("%s\n", name.c_str());
    std::fflush(stdout);
    run_once(target, bytes);
    corpus.push_back(std::move(bytes));
  }
  check(!corpus.empty(), "the corpus is empty");
  Mutator mutator(std::move(corpus));
  const CurrentInput current(std::string("fuzz_") + target.name + ".input");
  for (int i = 0; i < mutations; ++i) {
    const Bytes bytes = mutator.next();
    current.set(bytes);
    run_once(target, bytes);
  }
  current.remove();
  std::printf("%d mutations, at most %zu bytes allocated by one input\n", mutations,
              AllocationLimit::most());
  return 0;
}

}  // namespace
}  // namespace gdr::fuzz

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: fuzz_TARGET FOLDER MUTATIONS\n");
    return 2;
  }
  return gdr::fuzz::replay(gdr::fuzz::target_of(argv[0]), argv[1], std::stoi(argv[2]));
}

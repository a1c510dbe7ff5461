#include "plugin/stats_writer.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <thread>

#include "tests/fakes/recorded_log.h"
#include "tests/fakes/temp_folder.h"

namespace gdr::plugin {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::HasSubstr;

struct StatsWriterTest : testing::Test {
  TempFolder folder;
  RecordedLog log;
  std::atomic<int> texts{0};

  StatsWriter::Text text() {
    return [this](int number) {
      return "process " + std::to_string(number) + " text " + std::to_string(++texts) + "\n";
    };
  }
  std::string written(const std::string& name = "nccl_gdr_0.prom") const {
    std::string line;
    std::ifstream file(folder.path() / name);
    std::getline(file, line);
    return line;
  }
  // The limit is there for tests that fail, not a measurement.
  static bool wait_for(const std::function<bool()>& ready) {
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (!ready() && std::chrono::steady_clock::now() < limit) std::this_thread::sleep_for(1ms);
    return ready();
  }
};

TEST_F(StatsWriterTest, Start_WritesAtOnceAndNamesTheFile) {
  StatsWriter writer(folder.path(), text(), 1h);
  EXPECT_TRUE(wait_for([&] { return written() == "process 0 text 1"; })) << written();
  EXPECT_TRUE(wait_for([&] { return log.lines("counters are written to ").size() == 1; }));
  ASSERT_TRUE(wait_for([&] {
    writer.write_now();
    return texts > 1 && written() == "process 0 text " + std::to_string(texts);
  })) << "the file has what is counted then";
}

TEST_F(StatsWriterTest, Interval_WritesAgain) {
  StatsWriter writer(folder.path(), text(), 1ms);
  EXPECT_TRUE(wait_for([&] { return texts > 3; }));
}

TEST_F(StatsWriterTest, FolderIsMissing_OneWarningAndItGoesOnOnceThereIsOne) {
  const fs::path missing = folder.path() / "missing";
  StatsWriter writer(missing, text(), 1h);
  for (int i = 0; i < 3; ++i) writer.write_now();
  ASSERT_TRUE(wait_for([&] { return log.warnings().size() == 1; }));
  EXPECT_THAT(log.warnings()[0], HasSubstr("counters are not written, and the job goes on"));
  EXPECT_THAT(log.warnings()[0], HasSubstr("Fix: let GDR_NCCL_STATS_DIR name a folder"));
  fs::create_directory(missing);
  EXPECT_TRUE(wait_for([&] {
    writer.write_now();
    return !written("missing/nccl_gdr_0.prom").empty();
  }));
  fs::remove_all(missing);
  EXPECT_TRUE(wait_for([&] {
    writer.write_now();
    return log.lines("INFO NET/GDR : counters are not written").size() == 1;
  })) << "later failures are no warnings";
  EXPECT_EQ(log.warnings().size(), 1u);
}

TEST_F(StatsWriterTest, TextThrows_NextOneIsWritten) {
  StatsWriter writer(
      folder.path(),
      [this](int) -> std::string {
        if (++texts == 1) throw std::bad_alloc();
        return "text\n";
      },
      1ms);
  EXPECT_TRUE(wait_for([&] { return written() == "text"; }));
}

// A collective that ends must not wait for a server.
TEST_F(StatsWriterTest, FileSystemBlocks_CallsReturn) {
  const auto blocks = std::make_shared<std::atomic<bool>>(true);
  {
    StatsWriter writer(
        folder.path(),
        [blocks](int) {
          while (*blocks) std::this_thread::sleep_for(1ms);
          return std::string("text\n");
        },
        1h);
    writer.write_now();
    *blocks = false;
  }
  SUCCEED();
}

TEST_F(StatsWriterTest, RelativeFolder_StaysWhereItWasNamed) {
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  StatsWriter writer(".", text(), 1h);
  fs::current_path(before);
  EXPECT_TRUE(wait_for([&] { return !written().empty(); }));
}

}  // namespace
}  // namespace gdr::plugin

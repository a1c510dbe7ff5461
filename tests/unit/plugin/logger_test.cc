#include "plugin/logger.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/log.h"

namespace gdr::plugin {
namespace {

// A copy of the library with the logger, loaded; each test has its own.
class LoggerOfALibrary : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    file_ = std::filesystem::path(COPIES_FOLDER) / (test + "-" + std::to_string(getpid()) + ".so");
    std::filesystem::copy_file(LOGGER_LIBRARY, file_);
    library_ = dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    logger_ = reinterpret_cast<abi::ncclDebugLogger_t>(dlsym(library_, "write_line"));
    line_ = static_cast<char*>(dlsym(library_, "last_line"));
  }
  void TearDown() override {
    log::set_sink(nullptr);
    std::filesystem::remove(file_);
  }

  bool is_loaded() const {
    void* handle = dlopen(file_.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (handle != nullptr) dlclose(handle);
    return handle != nullptr;
  }

  std::filesystem::path file_;
  void* library_ = nullptr;
  abi::ncclDebugLogger_t logger_ = nullptr;
  char* line_ = nullptr;
};

TEST_F(LoggerOfALibrary, WithoutThePlugin_IsUnloadedWhenClosed) {
  ASSERT_TRUE(is_loaded());
  dlclose(library_);
  EXPECT_FALSE(is_loaded());
}

// Also where its file is replaced meanwhile.
TEST_F(LoggerOfALibrary, ClosedByTheApplication_StillWritesLines) {
  std::filesystem::remove(file_);
  use_logger(logger_);
  dlclose(library_);
  ASSERT_TRUE(is_loaded());
  GDR_WARN("after the end of %s", "NCCL");
  EXPECT_STREQ(line_, "NET/GDR : after the end of NCCL");
}

TEST_F(LoggerOfALibrary, ReplacedByAnother_StaysLoadedForThreadsInsideIt) {
  use_logger(logger_);
  dlclose(library_);
  use_logger(nullptr);
  ASSERT_TRUE(is_loaded());
  GDR_WARN("to nobody");
  EXPECT_STREQ(line_, "");
}

TEST_F(LoggerOfALibrary, PassedAgain_IsUsedAgain) {
  use_logger(logger_);
  use_logger(nullptr);
  use_logger(logger_);
  GDR_WARN("line");
  EXPECT_STREQ(line_, "NET/GDR : line");
  dlclose(library_);
}

std::string g_last_format;

void write_to_executable(abi::ncclDebugLogLevel, unsigned long, const char*, int,
                         const char* format, ...) {
  g_last_format = format;
}

// As where NCCL is linked into the application.
TEST(Logger, InTheExecutable_Works) {
  use_logger(write_to_executable);
  GDR_WARN("line");
  EXPECT_EQ(g_last_format, "%s");
  use_logger(nullptr);
  log::set_sink(nullptr);
}

}  // namespace
}  // namespace gdr::plugin

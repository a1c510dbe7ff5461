// A fixture of tests that have a configuration of their own. It is read once per process: CTest
// runs each test in its own process, and a run of the whole program skips the others.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace softhca_test {

class Configured : public testing::Test {
 protected:
  void use(const std::string& json) {
    static std::string first;
    if (first.empty()) first = json;
    if (first != json) GTEST_SKIP() << "runs alone";
    setenv("SOFTHCA_CONFIG", json.c_str(), 1);
  }
};

}  // namespace softhca_test

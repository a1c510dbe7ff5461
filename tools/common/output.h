// What the commands print on standard output, and write to files. That it cannot be written, as on
// a full disk, ends a command by an exception, which fmt::print throws as well: run_command_line()
// turns it into one of the exit statuses.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

namespace gdr::tools {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // a conformance case failed, or results were wrong
inline constexpr int kExitUsage = 2;
inline constexpr int kExitCouldNotRun = 3;

// Of with-softhca, as env(1) has it: the program was not started.
inline constexpr int kExitNoSofthca = 125;

// Opens those of the three standard streams that the caller has closed (`>&-`), so that no file or
// socket that is opened later gets their numbers. Their use fails as if they were still closed.
void hold_standard_streams();

// What cannot be written, and why.
class OutputError : public std::runtime_error {
  using runtime_error::runtime_error;
};

// Prints the text, and makes sure that all of stdout so far has been written. Throws OutputError
// where it has not.
void print_now(const std::string& text);

// Writes the text to the file, or to stdout where `file` is "-". Throws OutputError.
void write_output(const std::string& file, const std::string& text);

// Throws OutputError where the file cannot be opened for writing, so that a command finds that out
// before it measures. Makes the file where it does not exist. "" and "-" pass.
void expect_writable(const std::string& file);

// Returns the text of what was thrown: of print_now(), of fmt::print, or of a defect.
std::string describe_failure(const std::exception& error);

// Erases the line of a terminal in which the cursor is.
inline constexpr char kClearLine[] = "\r\x1b[K";

// Whether people see stderr while it is written.
bool is_stderr_terminal();

}  // namespace gdr::tools

// Reading the fields of one JSON object, with an error for each wrong value and each unknown field.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace softhca {

using Json = nlohmann::json;

// Each reading function leaves its target unchanged when the field is absent or wrong. Only the
// first error is kept. Error texts name the path of the field and what is accepted, such as
//   field "devices[0].ports": accepted is an integer from 1 to 4
class JsonFields {
 public:
  // `path` is that of the object, empty for the whole document.
  JsonFields(const Json& object, std::string path);

  template <class T>
  void number(const char* name, double low, double high, T* target) {
    double value = 0;
    if (read_number(name, low, high, &value)) *target = static_cast<T>(value);
  }
  template <class T>
  void integer(const char* name, uint64_t low, uint64_t high, T* target) {
    uint64_t value = 0;
    if (read_integer(name, low, high, &value)) *target = static_cast<T>(value);
  }
  void boolean(const char* name, bool* target);
  // Up to 16 hexadecimal digits in a string, with or without "0x".
  void hex(const char* name, uint64_t* target);
  void string(const char* name, bool (*valid)(const std::string&), const std::string& accepted,
              std::string* target);
  void strings(const char* name, std::vector<std::string>* target);
  // One of a few values, each of which stands for a T.
  template <class T>
  void choice(const char* name, std::initializer_list<std::pair<Json, T>> choices,
              const std::string& accepted, T* target) {
    const Json* value = find(name);
    if (value == nullptr) return;
    for (const auto& [key, meaning] : choices) {
      if (*value == key) {
        *target = meaning;
        return;
      }
    }
    reject(name, accepted);
  }
  // Calls read(object, path) for each object of a list.
  void objects(const char* name, const std::function<gdr::Status(const Json&, std::string)>& read);

  // Returns the value of a field, or null when it is absent, and marks its name as known.
  const Json* find(const char* name);
  // Records an error of a field, or that of an object inside it.
  void reject(const char* name, const std::string& accepted);
  void note(gdr::Status status);

  // The first error, or that of an unknown field. Call last: every name that was read is known.
  gdr::Status result();

 private:
  bool read_number(const char* name, double low, double high, double* value);
  bool read_integer(const char* name, uint64_t low, uint64_t high, uint64_t* value);
  std::string path(const std::string& name) const {
    return path_.empty() ? name : path_ + "." + name;
  }

  const Json& object_;
  std::string path_;
  std::set<std::string> known_;
  gdr::Status first_;
};

}  // namespace softhca

// Checks JSON against a schema of the keywords that docs/*.schema.json use. It is stricter than
// JSON Schema: an object has all keys that the schema describes, and no other.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gdr::tools {

// Returns what is wrong with the value, each with its place: "/gpus/0/model: is not of its type";
// also what is wrong with the parts of the schema that the value uses.
std::vector<std::string> violations(const nlohmann::ordered_json& schema,
                                    const nlohmann::ordered_json& value);

}  // namespace gdr::tools

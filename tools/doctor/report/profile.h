// What two machines are compared by, and its JSON, which `nccl-gdr doctor --fingerprint` prints:
//
//   {"format": "nccl-gdr-fingerprint", "version": 3, "host": "node17",
//    "machine": {"kernel": "6.8.0-60-generic", "NVIDIA driver": "570.133.20", ...},
//    "settings": {"NCCL_IB_TC": "106"},
//    "devices": {"GPU": [{"name": "GPU0", "address": "0000:3b:00.0", "guid": "",
//                         "properties": {"model": "NVIDIA H100", "PCIe link": "32 GT/s x16"},
//                         "paths": {"GPU1": "NVL", "mlx5_0": "PIX"},
//                         "choices": {"rails": "0"}}],
//                "HCA": [...], "PCIe switch": [...]}}
//
// It has no times, counters or process ids, so that it stays the same while the machine does.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace gdr::tools::doctor {

struct Host;

// Values by their names for people. "none" where something is known to be absent; what is unknown
// is left out.
using Facts = std::map<std::string, std::string>;

// The kinds of devices, in the order in which they are compared.
inline constexpr char kGpuKind[] = "GPU";
inline constexpr char kHcaKind[] = "HCA";
inline constexpr char kSwitchKind[] = "PCIe switch";

// Why NCCL would fail: a fact of the machine as a whole, which follows from all others.
inline constexpr char kNcclFailure[] = "NCCL's failure";

// Names and addresses differ between machines that are alike: they are for people, and to find the
// devices that belong together.
struct Device {
  std::string name;     // "GPU3", "mlx5_3"
  std::string address;  // "0000:3b:00.0"; "" where it has none
  std::string guid;     // of an HCA in hexadecimal digits, or a GPU's UUID; "" where it is unknown
  Facts properties;
  Facts paths;    // of a GPU: the class of the path to each other device, by its name
  Facts choices;  // what the plugin and NCCL make of all these
};

struct Profile {
  std::string host;
  Facts machine;   // the machine as a whole, and its software
  Facts settings;  // variables of NCCL and the plugin; one that is missing is unset
  std::map<std::string, std::vector<Device>> devices;  // by kind
};

// Returns what the files of the host show, its topology and, where it is live, the libraries that
// the loader finds.
Profile profile_of(const Host& host);

std::string to_json(const Profile& profile);

// Parses that. Fails with kInvalidArgument where it is something else, or of another version; the
// text goes on behind a name: "is not a fingerprint".
Result<Profile> parse_fingerprint(const std::string& text);

// What is wrong with JSON that nlohmann's library does not take, to follow "is not ...: ".
std::string json_error(const std::exception& error);

// Reads a file or a pipe. Fails with kInvalidArgument; the text goes on behind the file's name.
Result<std::string> text_of_file(const std::string& file);

// Reads one from a file. Fails with kInvalidArgument and a text that names the file.
Result<Profile> read_fingerprint(const std::string& file);

// Returns the kind of devices without which a machine cannot be a reference: "GPU", "HCA"; ""
// where it has both.
std::string lacking_in(const Profile& profile);

// The property of a device that one of the machines does not have.
inline constexpr char kPresence[] = "present";  // "yes", "no"

struct Difference {
  // "GPU3", "mlx5_3", "mlx5_3 (0000:b1:00.0)", "PCIe switch 0000:15:00.0"; "" for the machine
  std::string subject = {};
  std::string property = {}, first = {}, second = {};
  std::string kind = {};  // of the device: kGpuKind, ...
};

// Compares what is known of both. Settings, software and missing devices come first, then
// properties of devices, then paths; rails and NCCL's decisions, which follow from the devices,
// only where both have the same ones. Devices belong together by GUID, else by PCI address, if one
// machine has all addresses of the other, else by name; if none of these shows anything, by order
// where there are as many.
std::vector<Difference> compare_profiles(const Profile& first, const Profile& second);

}  // namespace gdr::tools::doctor

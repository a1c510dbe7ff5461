// The files of /dev/infiniband by which programs open the HCAs.
#pragma once

#include <map>
#include <string>

namespace gdr::tools::doctor {

struct Host;
struct DeviceFile;

// Returns the uverbs* of each RDMA device in sysfs.
std::map<std::string, std::string> uverbs_by_device(const Host& host);

// Returns the file of /dev/infiniband with that name; null where there is none, or where it was not
// looked for.
const DeviceFile* uverbs_file(const Host& host, const std::string& name);

// Whether the file is kept from this container or job, which has others: a pod or a job often gets
// some of the machine's HCAs, while sysfs shows all of them.
bool is_withheld(const Host& host, const std::string& name);

}  // namespace gdr::tools::doctor

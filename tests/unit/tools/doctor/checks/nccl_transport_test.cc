#include "tests/unit/tools/doctor/facts/made_host.h"

namespace gdr::tools::doctor {
namespace {

// The variables of a job on this machine, which has an HCA and whose libraries are known.
auto in_job(const config::Environment& environment) {
  return [environment](MadeHost* made) {
    made->write("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
    made->host.is_live = made->host.libraries.is_known = true;
    made->host.environment = environment;
  };
}

// The variables on a machine without an HCA, of whose libraries nothing is known.
auto without_hca(const config::Environment& environment) {
  return [environment](MadeHost* made) { made->host.environment = environment; };
}

// NCCL_NET=GDR where NCCL finds a default plugin.
auto net_gdr(bool is_this_plugin, const char* plugin = "") {
  return [=](MadeHost* made) {
    in_job({{"NCCL_NET", "GDR"}})(made);
    if (*plugin != 0) made->host.environment["NCCL_NET_PLUGIN"] = plugin;
    made->host.libraries.default_plugin = {
        {"/usr/lib/libnccl-net.so", "/etc/ld.so.cache", "", {11}}};
    made->host.libraries.default_plugin[0].is_this_plugin = is_this_plugin;
  };
}

TEST(NcclTransport, EachCase_HasItsVerdict) {
  static constexpr char kPath[] = "/lib64/libnccl-net-gdr.so";
  expect_worst<MadeHost>(
      "nccl-transport",
      {{"nothing set", in_job({}), Verdict::kOk},
       {"nothing set on another machine", [](MadeHost*) {}, Verdict::kUnknown},
       {"this plugin", in_job({{"NCCL_NET_PLUGIN", "gdr"}}), Verdict::kOk},
       {"this plugin and its name", in_job({{"NCCL_NET_PLUGIN", "gdr"}, {"NCCL_NET", "gdr"}}),
        Verdict::kOk},
       {"no plugin", in_job({{"NCCL_NET_PLUGIN", "none"}, {"NCCL_NET", "IB"}}), Verdict::kOk},
       {"IB disabled", in_job({{"NCCL_IB_DISABLE", "1"}}), Verdict::kFailure, "", "",
        "unset NCCL_IB_DISABLE"},
       {"IB not disabled", in_job({{"NCCL_IB_DISABLE", "0"}}), Verdict::kOk},
       {"number out of range", in_job({{"NCCL_IB_DISABLE", "99999999999999999999"}}), Verdict::kOk},
       {"sockets", in_job({{"NCCL_NET", "socket"}}), Verdict::kFailure},
       {"sockets without an HCA", without_hca({{"NCCL_NET", "Socket"}, {"NCCL_IB_DISABLE", "1"}}),
        Verdict::kOk},
       {"IB beside the plugin", in_job({{"NCCL_NET", "IB"}, {"NCCL_NET_PLUGIN", "gdr"}}),
        Verdict::kWarning},
       {"another net beside the plugin", in_job({{"NCCL_NET", "OFI"}, {"NCCL_NET_PLUGIN", "gdr"}}),
        Verdict::kWarning},
       {"GDR without the plugin", in_job({{"NCCL_NET", "GDR"}}), Verdict::kFailure, "", "",
        "export NCCL_NET_PLUGIN=gdr"},
       {"GDR with another default plugin", net_gdr(false), Verdict::kWarning},
       {"GDR with this plugin as the default", net_gdr(true), Verdict::kOk},
       {"GDR with no plugin", net_gdr(true, "none"), Verdict::kFailure},
       {"unknown net", in_job({{"NCCL_NET", "XYZ"}}), Verdict::kFailure, "", "", "unset NCCL_NET"},
       {"net of another plugin", in_job({{"NCCL_NET", "XYZ"}, {"NCCL_NET_PLUGIN", "ofi"}}),
        Verdict::kUnknown},
       {"net, with unknown libraries", without_hca({{"NCCL_NET", "AWS Libfabric"}}),
        Verdict::kUnknown},
       {"net of the default plugin",
        [](MadeHost* made) {
          in_job({{"NCCL_NET", "AWS Libfabric"}})(made);
          made->host.libraries.default_plugin.emplace_back();
        },
        Verdict::kUnknown},
       {"the plugin in capitals", in_job({{"NCCL_NET_PLUGIN", "GDR"}}), Verdict::kFailure, "", "",
        "export NCCL_NET_PLUGIN=gdr"},
       {"path that does not exist", without_hca({{"NCCL_NET_PLUGIN", kPath}}), Verdict::kFailure},
       {"path that exists",
        [](MadeHost* made) {
          made->host.environment["NCCL_NET_PLUGIN"] = kPath;
          made->write(kPath, "");
        },
        Verdict::kOk}});
}

// A copy of the plugin, or of libnccl-net.so, with these tables.
LibraryFile plugin_at(const std::string& file, std::vector<int> tables) {
  LibraryFile plugin{file, "LD_LIBRARY_PATH", ""};
  plugin.net_tables = std::move(tables);
  return plugin;
}

auto wants_gdr(const LibraryFiles& files, const char* own = "") {
  return [=](MadeHost* made) {
    made->host.libraries.is_known = true;
    made->host.libraries.gdr_plugin = files;
    made->host.libraries.own_plugin = own;
    made->host.environment["NCCL_NET_PLUGIN"] = "gdr";
  };
}

auto has_default(const LibraryFiles& files) {
  return [=](MadeHost* made) {
    made->host.libraries.is_known = true;
    made->host.libraries.default_plugin = files;
  };
}

auto names_other(const std::vector<std::string>& missing) {
  return [=](MadeHost* made) {
    made->host.libraries.is_known = true;
    made->host.libraries.missing_plugins = missing;
    made->host.environment["NCCL_NET_PLUGIN"] = "ofi";
  };
}

TEST(NetPlugin, EachCase_HasItsVerdict) {
  const std::string a = "/a/libnccl-net-gdr.so", b = "/b/libnccl-net-gdr.so";
  expect_worst<MadeHost>(
      "net-plugin",
      {{"found", wants_gdr({plugin_at(a, {8, 9})}), Verdict::kOk, "",
        "/a/libnccl-net-gdr.so has the tables v8, v9 (by LD_LIBRARY_PATH)"},
       {"not found", wants_gdr({}, "/build/lib/libnccl-net-gdr.so"), Verdict::kFailure, "", "",
        "export LD_LIBRARY_PATH='/build/lib':"},
       {"without tables", wants_gdr({plugin_at(a, {})}), Verdict::kFailure},
       {"two copies", wants_gdr({plugin_at(a, {8}), plugin_at(b, {8})}), Verdict::kWarning},
       {"by path",
        [&](MadeHost* made) {
          wants_gdr({})(made);
          made->host.environment["NCCL_NET_PLUGIN"] = a;
        },
        Verdict::kOk},
       {"no default plugin", has_default({}), Verdict::kOk},
       {"default plugin", has_default({plugin_at("/ofi/libnccl-net.so", {9, 10})}), Verdict::kOk,
        "", "/ofi/libnccl-net.so"},
       {"default plugin without tables", has_default({plugin_at("/a/libnccl-net.so", {})}),
        Verdict::kWarning},
       {"two default plugins",
        has_default({plugin_at("/a/libnccl-net.so", {8}), plugin_at("/b/libnccl-net.so", {9})}),
        Verdict::kWarning},
       {"another plugin", names_other({}), Verdict::kOk},
       {"another plugin that is not found", names_other({"libnccl-net-ofi.so"}), Verdict::kWarning,
        "NCCL_NET_PLUGIN", "does not find libnccl-net-ofi.so", "correct the name"},
       {"of another machine", [](MadeHost*) {}, Verdict::kUnknown}});
}

}  // namespace
}  // namespace gdr::tools::doctor

#!/usr/bin/env python3
"""Tests of the plugin's rails, over software HCAs whose positions a NCCL topology file gives.

rails_test.py TOOL PLUGIN SOFTHCA_FOLDER TOPOLOGIES_FOLDER [unittest arguments]
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from over_softhca import environment, free_address

TIMEOUT_S = 60
TOOL, PLUGIN, SOFTHCA, TOPOLOGIES = sys.argv[1:5]

# The NICs of nccl-hgx-4nic.xml.
PCI_ADDRESSES = {"mlx5_0": "0000:14:00.0", "mlx5_1": "0000:54:00.0", "mlx5_2": "0000:94:00.0",
          "mlx5_3": "0000:d4:00.0"}


def devices(**changes):
    listed = [{"name": name, "pci": address} for name, address in PCI_ADDRESSES.items()]
    return [one | changes.get(one["name"], {}) for one in listed]


class Rails(unittest.TestCase):
    def environment(self, hcas, faults=(), **settings):
        settings = {"NCCL_TOPO_FILE": f"{TOPOLOGIES}/nccl-hgx-4nic.xml"} | settings
        return environment([SOFTHCA], {"devices": hcas, "faults": list(faults)}, **settings)

    def start(self, environment, *arguments, dev="0", iters=10, seconds=None):
        measure = ["--end", "8", "--iters", str(iters)]
        if seconds is not None:
            measure = ["--begin", "64K", "--end", "64K", "--test", "bw", "--check", "--seconds", str(seconds)]
        command = [TOOL, "perf", "sendrecv", "--plugin", PLUGIN, "--dev", dev, *measure, *arguments]
        return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)

    def run_perf(self, hcas, faults=(), dev="0", iters=10, **settings):
        process = self.start(self.environment(hcas, faults, **settings), dev=dev, iters=iters)
        output = process.communicate(timeout=TIMEOUT_S)[0]
        self.assertEqual(process.returncode, 0, output)
        return output

    def test_file_of_nccl_places_hcas_under_their_gpus(self):
        output = self.run_perf(devices())
        for gpu in range(8):
            self.assertRegex(output, rf"map GPU{gpu} \S+ rail {gpu // 2} mlx5_{gpu // 2}:1 path PIX "
                                     "GPUDirect yes: PIX is within P2C")
        for device in range(4):
            self.assertIn(f"[{device}] mlx5_{device}:1 InfiniBand", output)

    def test_speed_is_that_of_the_newest_query(self):
        output = self.run_perf(devices(
            mlx5_0={"link_speed": "XDR"},
            mlx5_1={"port_speed_gbps": 800},
            mlx5_2={"link_speed": "XDR", "active_speed_ex": False},  # then only sysfs has it
            mlx5_3={"link_speed": 512, "speed_gbps": 1600}))
        for device, gbps in enumerate((800, 800, 800, 1600)):
            self.assertIn(f"[{device}] mlx5_{device}:1 InfiniBand {gbps} Gb/s", output)

    def restrictions(self, **settings):
        judged = subprocess.run([TOOL, "doctor", "--check", "rails", "--json"],
                                env=self.environment(devices(), **settings), text=True,
                                stdout=subprocess.PIPE, timeout=TIMEOUT_S)
        return [one for one in json.loads(judged.stdout)["checks"][0]["observations"]
                if one["kind"] == "restriction"]

    # The ports that NCCL_IB_HCA excludes are not among those of the decision.
    def test_doctor_names_gpus_that_lose_by_settings(self):
        self.assertEqual(self.restrictions(), [])
        self.assertEqual(self.restrictions(NCCL_IB_HCA="mlx5"), [])
        (excluded,) = self.restrictions(NCCL_IB_HCA="^mlx5_1")
        self.assertEqual(excluded["subject"], "GPU0, GPU1, GPU2, GPU3")
        self.assertIn("leaves out mlx5_1:1, so that rails are farther away", excluded["evidence"])
        (mapped,) = self.restrictions(GDR_NCCL_RAIL_MAP="GPU0=mlx5_3")
        self.assertIn("GPU0", mapped["subject"])
        self.assertIn("GDR_NCCL_RAIL_MAP=GPU0=mlx5_3 leaves out", mapped["evidence"])

    def shown_rails(self, nets):
        """The rails that topo shows of a GPU beside these <net>, with another HCA far away."""
        def pci(busid, of_class, inside):
            return (f'<pci busid="{busid}" class="{of_class}" vendor="0x15b3" device="0x2100" '
                    f'link_speed="32.0 GT/s PCIe" link_width="16">{inside}</pci>')

        def nic(names):
            return "<nic>" + "".join(
                f'<net name="{name}" dev="{dev}" speed="400000" port="{port}" guid="{hex(dev // 2 + 1)}"/>'
                for dev, (name, port) in names) + "</nic>"

        near = pci("0000:02:00.0", "0x030200", '<gpu dev="0" sm="90" rank="0" gdr="1"/>')
        near += pci("0000:03:00.0", "0x020700", nic(list(enumerate(nets))))
        far = pci("0006:03:00.0", "0x020700", nic([(9, ("far_0", 1))]))
        text = (f'<system version="1"><cpu numaid="0" arch="arm64">{pci("0000:01:00.0", "0x060400", near)}'
                f'{pci("0006:01:00.0", "0x060400", far)}</cpu></system>')
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(text)
            file.flush()
            shown = subprocess.run([TOOL, "topo", "--json", "--from", file.name], text=True,
                                   env=environment([], {}), stdout=subprocess.PIPE, timeout=TIMEOUT_S).stdout
        return [rail["port"] for rail in json.loads(shown)["rails"]]

    # NCCL and the plugin show other names and ports than verbs has, in logs and in NCCL's file, and NCCL_IB_HCA
    # takes those of verbs.
    def test_rails_that_topo_shows_are_ports_that_the_plugin_finds(self):
        for nets, hcas, ports in (
                ([("mlx5_0", 1), ("mlx5_1", 1)], {"mlx5_0": 1, "mlx5_1": 1}, "mlx5_0:1 mlx5_1:1"),
                ([("mlx5_0_dma", 1), ("mlx5_1_dma", 1)], {"mlx5_0": 1, "mlx5_1": 1}, "mlx5_0:1 mlx5_1:1"),
                ([("mlx5_0", 1), ("mlx5_0_dma", 1)], {"mlx5_0": 1}, "mlx5_0:1"),
                ([("mlx5_0", 1), ("mlx5_0:2", 2)], {"mlx5_0": 2}, "mlx5_0:1 mlx5_0:2"),
                ([("mlx5_0_dma", 1), ("mlx5_0_dma:2", 2)], {"mlx5_0": 2}, "mlx5_0:1 mlx5_0:2"),
                ([("mlx5_0", 1), ("mlx5_0", 3)], {"mlx5_0": 2}, "mlx5_0:1 mlx5_0:2"),
                ([("mlx5_0", 2)], {"mlx5_0": 2}, "mlx5_0:2"),
                ([("ibp3s0f0", 1), ("ibp3s0f1", 2)], {"ibp3s0f0": 1, "ibp3s0f1": 1}, "ibp3s0f0:1 ibp3s0f1:1"),
                ([("mlx5_1", 1)], {"mlx5_1": 1, "mlx5_10": 1, "mlx5_11": 1}, "mlx5_1:1")):
            with self.subTest(nets=nets):
                listed = "=" + ",".join(self.shown_rails(nets))
                all_hcas = [{"name": name, "ports": count} for name, count in (hcas | {"far_0": 1}).items()]
                output = self.run_perf(all_hcas, NCCL_IB_HCA=listed, NCCL_TOPO_FILE="")
                found = re.findall(r"\[\d+\] (\S+) InfiniBand", output)
                self.assertEqual(sorted(set(found)), ports.split(), listed)

    def test_file_that_nccl_refuses_is_named_before_nccl_fails(self):
        with open(f"{TOPOLOGIES}/nccl-hgx-4nic.xml", encoding="utf-8") as file:
            text = file.read().replace("\n    <pci", "\n\t<pci", 1)
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as refused:
            refused.write(text)
            refused.flush()
            output = self.run_perf(devices(), NCCL_TOPO_FILE=refused.name)
            with_graph = self.run_perf(devices(), NCCL_GRAPH_FILE=refused.name)
        self.assertIn(f"[nccl-fails] : NCCL_GRAPH_FILE: NCCL refuses this file, and fails: {refused.name}:4: a tab", with_graph)
        self.assertIn(f"[nccl-fails] : {refused.name}:4: NCCL refuses this as its topology file, and fails: a tab", output)

    def test_port_that_is_down_keeps_its_number(self):
        down = {"kind": "port_down", "device": "mlx5_1", "at_s": 0}
        output = self.run_perf(devices(), [down])
        self.assertIn("map rail 1 mlx5_1:1 not usable: the port is down", output)
        self.assertRegex(output, r"\[1\] mlx5_2:1 .* rail 2 ")
        self.assertRegex(output, r"map GPU7 \S+ rail 3 mlx5_3:1")

    def test_ports_of_one_address_are_warned_about(self):
        roce = [one | {"link_layer": "Ethernet"} for one in devices()]
        self.assertNotIn("[same-gid]", self.run_perf(roce))
        output = self.run_perf([one | {"gids": ["::ffff:10.0.0.1"]} for one in roce[:2]])
        self.assertIn("WARN NET/GDR [same-gid] : mlx5_0:1, mlx5_1:1: the ports have one GID, ::ffff:10.0.0.1", output)

    def limited(self, kib, **settings):
        """With standby rails, and a limit on locked memory."""
        return environment([SOFTHCA], {"devices": devices(), "memlock_bytes": kib << 10}, NCCL_NET_GDR_LEVEL="SYS",
                           NCCL_TOPO_FILE=f"{TOPOLOGIES}/nccl-hgx-4nic.xml", **settings)

    # Each of these ended with standby rails, which took what was left.
    def test_little_memory_to_lock_makes_connections_without_standby_rails(self):
        for kib in (180, 220, 300, 340):
            with self.subTest(kib=kib):
                process = self.start(self.limited(kib))
                output = process.communicate(timeout=TIMEOUT_S)[0]
                self.assertEqual(process.returncode, 0, output)
                self.assertIn("less than 6 MiB would be left for others to lock", output)

    def survives(self, channels, standby, kib):
        """Whether a job does that registers its buffers, of 1.5 MiB a channel and direction, when its connections
        are made."""
        limited = self.limited(kib, GDR_NCCL_STANDBY_RAILS=str(standby))
        return subprocess.run([TOOL, "perf", "all_reduce", "--plugin", PLUGIN, "--ranks", "2", "--dev", "0", "--begin",
                               "1M", "--end", "1M", "--iters", "5", "--channels", str(channels)], env=limited,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=TIMEOUT_S).returncode == 0

    # More than 6 MiB are left when the connections are made, which have standby rails then, and all of that is needed
    # later. What they cannot give back are 8 KiB of the active rail's tables at each of the two ends of a channel.
    def test_standby_rails_give_back_all_but_8_kib_of_an_end(self):
        for channels in (2, 8):
            with self.subTest(channels=channels):
                fails, enough = 4 << 10, 24 << 10  # KiB: without standby rails
                while enough - fails > 4:
                    middle = (fails + enough) // 8 * 4
                    fails, enough = (fails, middle) if self.survives(channels, 0, middle) else (middle, enough)
                self.assertGreater(enough, 6 << 10)
                for standby in (1, 3):
                    self.assertTrue(self.survives(channels, standby, enough + 8 * 2 * channels), (standby, enough))

    def test_failover_is_off_as_the_user_asks(self):
        output = self.run_perf(devices(), NCCL_NET_GDR_LEVEL="SYS", GDR_NCCL_STANDBY_RAILS="0")
        self.assertIn("failover: no standby rails, as GDR_NCCL_STANDBY_RAILS=0 asks", output)

    def test_merged_device_is_logged_and_listed(self):
        output = self.run_perf(devices(), dev="0+2")
        self.assertIn("NCCL has merged a device: [4] mlx5_0+mlx5_2 InfiniBand 800 Gb/s pci 0000:14:00.0", output)
        self.assertRegex(output, r"device +4 mlx5_0\+mlx5_2 .* speed 800000 Mb/s")
        self.assertIn("0 wrong", output)

    def test_merge_that_nccl_or_the_fabric_has_no_use_for_is_declined(self):
        for hcas, settings, reason in (
                (devices(mlx5_1={"link_layer": "Ethernet"}), {}, "cannot be merged"),
                (devices(), {"NCCL_IB_MERGE_NICS": "0"}, "as NCCL_IB_MERGE_NICS=0 asks"),
                ([{"name": "soft0"}, {"name": "soft1"}], {}, "is on no PCI function")):
            with self.subTest(reason=reason):
                process = self.start(self.environment(hcas, **settings), dev="0+1")
                output = process.communicate(timeout=TIMEOUT_S)[0]
                self.assertNotEqual(process.returncode, 0)
                self.assertRegex(output, rf"NCCL INFO NET/GDR : makeVDevice: .*{reason}")

    def test_connection_carries_on_over_its_other_rails(self):
        down = {"kind": "port_down", "device": "mlx5_0", "after_ops": 1000}
        for dev in ("0", "0+1"):
            with self.subTest(dev=dev):
                output = self.run_perf(devices(), [down], dev=dev, iters=1000, NCCL_NET_GDR_LEVEL="SYS")
                self.assertRegex(output, r"NCCL WARN NET/GDR : mlx5_0:1 <-> \S+ mlx5_0:1 is lost: ")
                self.assertRegex(output, r"NCCL INFO NET/GDR : rail mlx5_\d:1: sent \d+ bytes in ")
                self.assertIn("0 wrong", output)

    def test_connection_without_failover_ends_with_its_rail(self):
        down = {"kind": "port_down", "device": "mlx5_0", "after_ops": 40}
        for dev in ("0", "0+1"):
            with self.subTest(dev=dev):
                process = self.start(self.environment(devices(), [down], NCCL_NET_GDR_LEVEL="SYS",
                                                      NCCL_IB_TIMEOUT="8", GDR_NCCL_FAILOVER="0"), dev=dev)
                output = process.communicate(timeout=TIMEOUT_S)[0]
                self.assertNotEqual(process.returncode, 0, output)
                self.assertNotIn("is lost: ", output)

    def start_ranks(self, environments, **options):
        root = free_address()
        return [self.start(one, "--root", root, "--rank", str(rank), **options)
                for rank, one in enumerate(environments)]

    def outputs(self, ranks):
        outputs = [rank.communicate(timeout=TIMEOUT_S)[0] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0], outputs)
        return outputs

    # The runs are in parallel, since each has to last for some pauses.
    def test_rail_returns_at_the_present_address_and_once_it_carries_large_packets_whatever_another_does(self):
        flap = {"kind": "port_flap", "device": "mlx5_0", "after_ops": 200, "down_ms": 500}
        changes = {
            "LID": {"kind": "lid_change", "device": "mlx5_0", "after_ops": 200, "lid": 777},
            "GID": {"kind": "gid_change", "device": "mlx5_0", "after_ops": 200, "gid_index": 3,
                    "gid": "::ffff:10.99.99.99"}}
        hole = {"kind": "packets_lost", "device": "mlx5_0", "at_s": 2, "for_ms": 2500, "from_bytes": 1025}
        # The standby rail's port goes down as well, and its firmware stops answering.
        hung = [{"kind": "port_flap", "device": "mlx5_0", "at_s": 3, "down_ms": 2500},
                {"kind": "port_down", "device": "mlx5_1", "at_s": 3.5},
                {"kind": "port_query_blocked", "device": "mlx5_1", "at_s": 3.6, "for_ms": 8000}]
        faults = {name: [flap, change] for name, change in changes.items()} | {"MTU": [hole], "firmware": hung}
        runs = {}
        for name, of_one_end in faults.items():
            roce = {"link_layer": "Ethernet"} if name == "GID" else {}
            hcas = devices(mlx5_0=roce, mlx5_1=roce)
            runs[name] = self.start_ranks(
                [self.environment(hcas, one, NCCL_NET_GDR_LEVEL="SYS", NCCL_IB_TIMEOUT="11")
                 for one in (of_one_end, [])], seconds=10)
        for name, ranks in runs.items():
            with self.subTest(name):
                outputs = self.outputs(ranks)
                self.assertIn(" 0 wrong", outputs[0])
                for output in outputs:
                    self.assertEqual(output.count(": the rail is used again after"), 1, output)

    def warnings(self, runs):
        """Of each rank of each named run, when it has ended well, but for late data, as on a busy machine."""
        return {(name, rank): re.findall("NCCL WARN NET/GDR : (?!.* is avoided: )(.*)", output)
                for name, ranks in runs.items() for rank, output in enumerate(self.outputs(ranks))}

    def start_run(self, hcas, *faults_of_ranks, others=None):
        """others: the HCAs of further ranks than the first, where those are not the same."""
        settings = {"NCCL_NET_GDR_LEVEL": "SYS", "GDR_NCCL_STANDBY_RAILS": "3", "NCCL_IB_TIMEOUT": "11"}
        return self.start_ranks([self.environment((others or hcas) if rank > 0 else hcas, faults, **settings)
                                 for rank, faults in enumerate(faults_of_ranks)], seconds=8)

    def test_cause_that_concerns_several_rails_or_comes_again_is_one_warning(self):
        def standby(**of_each):
            return [of_each | {"device": f"mlx5_{i}"} for i in (1, 2, 3)]

        hole = standby(kind="packets_lost", at_s=0, from_bytes=1025)
        refused = standby(kind="modify_qp_refused", errno=110, count=0)
        flaps = [{"kind": "port_flap", "device": "mlx5_0", "at_s": 1, "down_ms": 300, "up_ms": 3000, "count": 2}]
        full = {one["device"]: {"max_qp": 1} for one in standby()}
        expected = {"MTU": "^mlx5_[123]:1 <-> .* is lost: .*the probe of 4096 bytes failed with RETRY_EXC_ERR",
                    "refused": "^mlx5_[123]:1 <-> .*: the standby rail .* is not connected, ",
                    "max_qp": r"^mlx5_[123]:1: connections go without it .*\(it states max_qp 1, .* Fix: lower ",
                    "flaps": "^mlx5_0:1 <-> .* is lost: .*the port is down"}
        warnings = self.warnings({
            "MTU": self.start_run(devices(), hole, hole), "refused": self.start_run(devices(), refused, refused),
            "max_qp": self.start_run(devices(**full), [], [], others=devices()), "flaps": self.start_run(devices(), flaps, [])})
        for (name, rank), lines in warnings.items():
            with self.subTest(name, rank=rank):
                # The end that lacks a queue pair warns, and its peer does not.
                lacks = name != "max_qp" or rank == 0
                self.assertEqual(len(lines), 1 if lacks else 0, lines)
                if lacks:
                    self.assertRegex(lines[0], expected[name])


def reason(text):
    """Without what the doctor says before it and the fix behind it, which topo prints apart."""
    return text.split(". Fix: ")[0].removeprefix("it ")


def of_topo(shown):
    verdicts = {one["port"]: f"rail {one['rail']}" if one["usable"] else "down" for one in shown["rails"]}
    left_out = shown["excluded_ports"] + shown["not_offered"]
    return verdicts | {one["port"]: reason(one["reason"]) for one in left_out}


def of_doctor(report):
    seen = next(one for one in report["checks"] if one["name"] == "port-state")["observations"]
    verdicts = {}
    for one in seen:
        state, _, excluded = one["evidence"].partition("; not for the traffic of GPUs: ")
        verdicts[one["subject"]] = reason(excluded) or ("rail" if "ACTIVE" in state else "down")
    return verdicts


def of_plugin(log):
    verdicts = dict(re.findall(r" : \[\d+\] (\S+) .* (rail \d+)", log))
    verdicts |= {port: "down" if why == "is not ACTIVE" else reason(why)
                 for port, why in re.findall(r"not used: (\S+:\d+) (.*)", log)}
    return verdicts | dict(re.findall(r"map (\S+) excluded: (.*)", log))


def write_root(folder):
    """A copy of /sys with two GPUs on root ports, an HCA, and devices that carry nothing of NCCL."""
    hcas = {"0000:18:00.0": ("mlx5_0", "1: CA", "InfiniBand", "0x15b3"),
            "0000:19:00.0": ("siw_eth0", "4: RNIC", "Ethernet", "0x1af4"),
            "0000:1a:00.0": ("efa_0", "255: <unknown>", "Unspecified", "0x1d0f"),
            "0000:1b:00.0": ("odd_0", "1: CA", "Unspecified", "0x15b3")}
    files = {}
    for address in ("0000:17:00.0", "0000:2a:00.0", *hcas):
        function = f"devices/pci{address[:7]}/{address}"
        files |= {f"{function}/class": "0x030200", f"{function}/vendor": "0x10de", f"{function}/device": "0x2330"}
        if address in hcas:
            name, node, layer, files[f"{function}/vendor"] = hcas[address]
            files |= {f"{function}/class": "0x020000", f"class/infiniband/{name}/node_type": node,
                      f"class/infiniband/{name}/ports/1/state": "4: ACTIVE",
                      f"class/infiniband/{name}/ports/1/link_layer": layer}
    for name, text in files.items():
        (folder / "sys" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "sys" / name).write_text(text + "\n")
    (folder / "sys/bus/pci/devices").mkdir(parents=True)
    for function in (folder / "sys/devices").glob("pci*/*"):
        (folder / "sys/bus/pci/devices" / function.name).symlink_to(function)
        if function.name in hcas:
            (folder / "sys/class/infiniband" / hcas[function.name][0] / "device").symlink_to(function)


class Verdicts(unittest.TestCase):
    """What topo says of a source, and the doctor and the plugin of the same machine, of each port."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def run_tool(self, *arguments, **options):
        return subprocess.run([TOOL, *map(str, arguments)], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT if "perf" in arguments else subprocess.DEVNULL,
                              timeout=TIMEOUT_S, **options).stdout

    def compare(self, source, others=(), **settings):
        """Prints a row of the table and returns the ports on which they differ."""
        shown = self.run_tool("topo", "--json", "--from", source, env=environment([], {}, **settings))
        if not shown:
            print(f"{source.name:28} refused", file=sys.stderr)
            return []
        # Software HCAs need plain names; some files have PCI addresses or what NCCL makes of names.
        whole = json.loads(self.run_tool("topo", "--json", "--from", source))
        listed = whole["hcas"]
        efas = [one["port"].removesuffix(":1") for one in whole["not_offered"] if "Elastic Fabric" in one["reason"]]
        names = {name: re.sub(r"\W", "_", name) for name in efas + [one["name"] for one in listed]}
        for old, new in names.items():
            shown = shown.replace(f'"{old}:', f'"{new}:')
        hcas = [{"name": names[one["name"]], "ports": max(port["number"] for port in one["ports"]),
                 "link_layer": one["ports"][0]["link_layer"] or "InfiniBand",
                 "speed_gbps": (one["ports"][0]["speed_mbps"] or 100000) // 1000}
                | ({"pci": one["address"]} if one["address"] else {}) for one in listed]
        hcas += [{"name": names[efa], "transport": "unspecified", "vendor_id": "1d0f"} for efa in efas]
        if not listed:  # without any port the plugin logs its error alone
            hcas.append({"name": "mlx5_0"})
        down = [{"kind": "port_down", "device": names[one["name"]], "port": port["number"], "at_s": 0}
                for one in listed for port in one["ports"] if port["state"] == "down"]
        file = source
        if not json.loads(shown)["source"].startswith("NCCL XML"):
            file = self.folder / "as_nccl.xml"
            file.write_text(self.run_tool("topo", "--nccl-xml", "--from", source))
        env = environment([SOFTHCA], {"devices": hcas + list(others), "faults": down},
                          NCCL_TOPO_FILE=str(file), **settings)
        topo = of_topo(json.loads(shown))
        plugin = of_plugin(self.run_tool("perf", "sendrecv", "--plugin", PLUGIN, "--end", "8", "--iters", "1",
                                         env=env))
        doctors = [of_doctor(json.loads(self.run_tool("doctor", "--json", *root, env=env)))
                   for root in ([], ["--root", source])[:1 + source.is_dir()]]
        odd = [(port, verdict, plugin.get(port), *(one.get(port) for one in doctors))
               for port, verdict in topo.items()
               if plugin.get(port) != verdict
               or any(one.get(port) != re.sub(r"^rail \d+$", "rail", verdict) for one in doctors)]
        rails = sum(one.startswith("rail ") for one in topo.values())
        print(f"{source.name:28} {len(topo):3} ports, {rails:2} rails, {len(odd)} differ", file=sys.stderr)
        return odd

    def test_topo_doctor_and_plugin_agree_on_each_port(self):
        write_root(self.folder / "root")
        siw = {"name": "siw_eth0", "transport": "iWARP", "link_layer": "Ethernet"}
        odd = {"name": "odd_0", "link_layer": "unspecified"}
        self.assertEqual(self.compare(self.folder / "root", [siw, odd]), [])
        for hcas in "mlx5_1,mlx5_2:l", "^mlx5_1", "=mlx5_0:1,mlx5_9,mlx5_77":
            with self.subTest(hcas):
                self.assertEqual(self.compare(pathlib.Path(TOPOLOGIES, "nccl-dgx-a100.xml"), NCCL_IB_HCA=hcas), [])
        for source in sorted(pathlib.Path(TOPOLOGIES).rglob("*.xml")):
            with self.subTest(source.name):
                self.assertEqual(self.compare(source), [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])

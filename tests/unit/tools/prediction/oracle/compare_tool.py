#!/usr/bin/env python3
"""Compares what `nccl-gdr topo` says of NCCL with the oracle, on the committed NCCL topology files.

compare_tool.py TOOL ORACLE TOPOLOGIES_FOLDER [unittest arguments]
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

TOOL, ORACLE = sys.argv[1:3]
FOLDER = pathlib.Path(sys.argv[3])
FILES = sorted([*FOLDER.glob("nccl-*.xml"), *FOLDER.glob("cases/*.xml")])
SPLIT_GPUS_FROM = "2.30.7"  # MLOPart
RELEASES = ["2.22.3", "2.27.3", "2.28.9", "2.29.7", "2.30.7"]
CHANNELS = 8  # that the oracle shows


def attributes(element):
    return dict(re.findall(r'(\w+)="([^"]*)"', element))


def nets_of(path):
    """The ports that the file names, as "mlx5_0:1", in the order of NCCL's numbers."""
    nets = [attributes(text) for text in re.findall(r"<net\b[^>]*>", path.read_text("utf-8"))]
    nets = [net for net in nets if "dev" in net and net.get("net") != "0"]
    nets.sort(key=lambda net: int(net["dev"]))
    return [f"{net['name']}:{net.get('port', '1')}" for net in nets]


def is_comparable(nets):
    """Whether the file names each port once, and none that NCCL has merged.

    The tool takes all files, and the oracle sees only the ports that are listed.
    """
    return nets and len(set(nets)) == len(nets) and not any("+" in net for net in nets)


def output_of(*command, **variables):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("NCCL_", "GDR_NCCL_"))}
    done = subprocess.run(command, env=kept | {"NCCL_CONF_FILE": os.devnull} | variables,
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def answer_of_tool(path, release, nets):
    """Devices per channel of each GPU, and (receive, send) of each GPU and port."""
    found = output_of(TOOL, "topo", "--from", str(path), "--json", "--nccl-version", release,
                      NCCL_IB_HCA="=" + ",".join(nets))["nccl"]
    ports = [device["port"] for device in found["devices"]]
    used, verdicts = [], {}
    for gpu in found["gpus"]:
        names = [ports[device] for device in gpu["devices"]]
        used.append([names[channel % len(names)] for channel in range(CHANNELS)] if names else [])
        for pair in gpu["to_devices"]:
            verdicts[gpu["gpu"], ports[pair["device"]]] = tuple(
                (2 if pair[direction]["over_pcie"] else 1) if pair[direction]["direct"] else 0
                for direction in ("receive", "send"))
    return bool(found["failure"]), sorted(ports), used, verdicts


def answer_of_oracle(path, release, nets):
    found = output_of(ORACLE, "--print", str(path), "--nccl-version", release)
    if found["failure"]:
        return True, sorted(nets), [], {}
    used = [[nets[device] for device in devices] for devices in found["used"]]
    verdicts = {(gpu, nets[device]): (receive, send)
                for gpu, device, receive, send in found["gdr"]}
    return False, sorted(nets), used, verdicts


class ToolTest(unittest.TestCase):

    def test_CommittedFiles_Shown_AsTheOracleSays(self):
        compared = 0
        for path in FILES:
            nets = nets_of(path)
            # Links between AMD's GPUs are in files of RCCL only, and NCCL does not read them.
            if not is_comparable(nets) or "<xgmi" in path.read_text("utf-8"):
                continue
            for release in RELEASES:
                if "mlopart=" in path.read_text("utf-8") and release != SPLIT_GPUS_FROM:
                    continue  # the oracle knows no split GPUs before
                with self.subTest(file=path.name, release=release):
                    expected = answer_of_oracle(path, release, nets)
                    shown = answer_of_tool(path, release, nets)
                    self.assertEqual(shown[0], expected[0], "whether NCCL fails")
                    if expected[0]:
                        continue
                    self.assertEqual(shown[1], expected[1], "devices")
                    self.assertEqual(shown[2], expected[2], "devices per channel of each GPU")
                    self.assertEqual(shown[3], expected[3], "receive and send")
                    compared += len(expected[3]) > 0
        self.assertGreater(compared, 50)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])

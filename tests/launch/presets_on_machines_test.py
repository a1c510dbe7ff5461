"""The presets on machines of their kind: the plugin's rails, and GPUDirect RDMA for every GPU.

CTest sets GDR_TOOL to the nccl-gdr that was built.
"""

import json
import os
import pathlib
import subprocess
import unittest

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_DGX = [f"mlx5_{number}:1" for number in (0, 3, 4, 5, 6, 9, 10, 11)]
_AZURE = [f"{number:04x}:00:00.0:1" for number in range(0x201, 0x209)]  # NCCL's file has no names
_FOUR = [f"mlx5_{number}:1" for number in range(4)]
_TWO = ["mlx5_0:1", "mlx5_1:1"]


def topology(machine, preset=None, **settings):
    """What `nccl-gdr topo` decides for a machine of tests/topologies with the preset's settings."""
    script = 'set -a; [ -z "$1" ] || source "$1"; exec "$2" topo --json --from "$3"'
    file = str(_ROOT / "nccl-tests-config/presets" / f"{preset}.env") if preset else ""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("NCCL_", "GDR_NCCL_"))}
    done = subprocess.run(["bash", "-eu", "-c", script, "bash", file, os.environ["GDR_TOOL"],
                           str(_ROOT / "tests/topologies" / f"{machine}.xml")],
                          env={**env, **settings}, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def direct(decided):
    """For each GPU, whether all its rails have GPUDirect RDMA in both directions."""
    return [bool(gpu["rails"]) and all(rail[way]["direct"] for rail in gpu["rails"]
                                       for way in ("receive", "send")) for gpu in decided["gpus"]]


class PresetsOnMachines(unittest.TestCase):

    def test_Preset_GivesEachGpuItsRailDirectly(self):
        for machine, preset, ports, settings in (
                ("hwloc-dgx-h100", "dgx_h100", _DGX, {}), ("nccl-hgx-4nic", "hgx_4nic", _FOUR, {}),
                # The made-up file has no device names, so that the names of the image match nothing.
                ("nccl-azure-ndv5", "azure_ndv5", _AZURE, {"NCCL_IB_HCA": "^mlx5_an"}),
                ("nccl-gb200-tray", "gb200_tray", _FOUR, {}),
                ("hwloc-two-socket-plain", "roce_two_socket", _TWO, {})):
            with self.subTest(preset):
                decided = topology(machine, preset, **settings)
                self.assertEqual([rail["port"] for rail in decided["rails"]], ports)
                self.assertEqual(set(direct(decided)), {True})

    def test_RoceTwoSocket_NeedsItsLevel(self):
        self.assertEqual(set(direct(topology("hwloc-two-socket-plain"))), {False})


if __name__ == "__main__":
    unittest.main()

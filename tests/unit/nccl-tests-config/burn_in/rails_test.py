"""The rails that `nccl-gdr topo --json` and sysfs show, and what is measured between them."""

import dataclasses
import pathlib
import re
import tempfile
import unittest

import paths  # noqa: F401  (sets the module path)
from burn_in import plan, rails
from ends import rail

_GPU = {"index": 0, "address": "0000:1b:00.0", "rails": [{"rail": 0, "path": "PXB"}]}
_PORT = {"number": 1, "speed_mbps": 400000, "link_layer": "InfiniBand"}
_HCA = {"name": "mlx5_0", "address": "0000:18:00.0", "numa_node": 1, "vendor": "0x15b3",
        "device": "0x1021", "ports": [_PORT]}
_MACHINE = {"numa_nodes": [{"id": 1, "cpus": "8-10,24"}], "gpus": [_GPU],
            "hcas": [_HCA, {**_HCA, "name": "rxe0", "address": None, "numa_node": None, "ports": [
                {**_PORT, "speed_mbps": None, "link_layer": "Ethernet"}]}],
            "rails": [{"rail": 0, "hca": 0, "port": "mlx5_0:1", "usable": True},
                      {"rail": 1, "hca": 1, "port": "rxe0:1", "usable": False, "why_not": "down"},
                      {"rail": 2, "hca": 1, "port": "rxe0:1", "usable": True}]}


class RailsTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.sysfs = pathlib.Path(folder.name)

    def write(self, path, text=""):
        (self.sysfs / path).parent.mkdir(parents=True, exist_ok=True)
        (self.sysfs / path).write_text(text + "\n", encoding="ascii")

    def test_Machine_Read_HasPortsAndGpus(self):
        self.write("class/infiniband/mlx5_0/device/vendor")
        self.write("class/infiniband/mlx5_0/ports/1/gids/0", f"fe80:0000:0000:0001{4 * ':0002'}")
        found = rails.from_topology(_MACHINE, {"0000:1b:00.0": 3}, self.sysfs)
        port = {"model": "0x15b3 0x1021", "port": 1}
        first = rails.End(rail=0, hca="mlx5_0", device=0, gbits=400, cpus=[8, 9, 10, 24],
                          fabric="InfiniBand fe80:0000:0000:0001", **port)
        self.assertEqual(found.usable[0].host, first)
        gpu = {"gpu": 0, "gpu_address": "0000:1b:00.0", "cuda": 3, "path": "PXB"}
        self.assertEqual(found.usable[0].gpus, [dataclasses.replace(first, **gpu)])
        self.assertEqual(found.usable[1], rails.Rail(
            rails.End(rail=2, hca="rxe0", device=1, fabric="Ethernet", is_virtual=True, **port), []))
        self.assertEqual(found.down, [("rail 1 rxe0:1", "down")])

    def test_PcieLink_BelowWhatTheDeviceSupports_IsAFault(self):
        for now, most, fault in (
                (("32.0 GT/s PCIe", "16"), ("32.0 GT/s PCIe", "16"), ""),
                (("32.0 GT/s PCIe", "8"), ("32.0 GT/s PCIe", "16"), "width 8 of 16"),
                (("8.0 GT/s PCIe", "8"), ("16.0 GT/s PCIe", "16"),
                 "speed 8.0 GT/s PCIe of 16.0 GT/s PCIe, width 8 of 16"),
                (("", ""), ("Unknown", "16"), "")):
            for when, values in (("current", now), ("max", most)):
                for what, value in zip(("speed", "width"), values):
                    self.write(f"bus/pci/devices/0000:18:00.0/{when}_link_{what}", value)
            self.assertEqual(rails.pcie_fault(self.sysfs, "0000:18:00.0"), fault)
        self.assertEqual(rails.pcie_fault(self.sysfs, None), "")


def short(subject):
    """"0 to 1, host memory" of "rail 0 mlx5_0:1 to rail 1 mlx5_1:1, host memory"."""
    return re.sub(r"rail (\d+) mlx5_\1:1", r"\1", subject)


class PlanTest(unittest.TestCase):

    def test_Cases_OfEachMode_AreThese(self):
        plain, first, second = [rail(0), rail(1), rail(2)], rail(0, gpus=[0, 1]), rail(1, gpus=[2])
        for found, subjects in (
                (plan.loopback([first]),
                 ["0 to itself, host memory", "0 to itself, GPU0 (PIX)", "0 to itself, GPU1 (PIX)"]),
                (plan.local(plain),
                 ["0 to 1, host memory", "1 to 2, host memory", "2 to 0, host memory"]),
                # Each GPU sends and receives; one without a partner takes the first one again.
                (plan.local([first, second])[:3],
                 ["0 to 1, host memory", "0 to 1, GPU0 (PIX), GPU2 (PIX)",
                  "0 to 1, GPU1 (PIX), GPU2 (PIX)"]),
                (plan.local([rail(0), second])[1:2], ["0 to 1, host memory, GPU2 (PIX)"]),
                # Ports of other fabrics are not paired.
                (plan.local([rail(0), rail(1, fabric="InfiniBand fe80"), rail(2)]),
                 ["0 to 2, host memory", "1 to itself, host memory", "2 to 0, host memory"]),
                (plan.local([]), []),
                (plan.remote(plain, [rail(2), rail(0)]),
                 ["0 <-> mlx5_0:1, host memory", "2 <-> mlx5_2:1, host memory"])):
            with self.subTest(subjects):
                self.assertEqual([short(case.subject()) for case in found], subjects)
        self.assertEqual(plan.unpaired(plain, [rail(2), rail(0), rail(3)]),
                         ["rail 1 mlx5_1:1", "rail 3 mlx5_3:1"])

    def test_RailThatIsAlone_HasTheReasonInItsNote(self):
        for others, why in (
                ([], "there is no other usable rail"),
                ([rail(1, fabric="InfiniBand")], "no other usable rail is in its fabric")):
            self.assertEqual(plan.local([rail(0), *others])[0].note, f"without the cable, as {why}")


if __name__ == "__main__":
    unittest.main()

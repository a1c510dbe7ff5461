import pathlib
import tempfile
import unittest

import paths  # noqa: F401  (sets the module path)
from comparelib import machine_facts


class MachineFactsTest(unittest.TestCase):

    def test_DriverAndFirmware_AreReadFromTheSystemsFiles(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "proc/driver/nvidia").mkdir(parents=True)
            (root / "proc/driver/nvidia/version").write_text(
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\nGCC version: 12\n"
            )
            for name, version in (("mlx5_0", "28.39.1002"), ("mlx5_1", "28.39.1002"), ("mlx5_2",
                                                                                       "20.1")):
                (root / "sys/class/infiniband" / name).mkdir(parents=True)
                (root / "sys/class/infiniband" / name / "fw_ver").write_text(version + "\n")
            found = machine_facts.versions(root)
        self.assertEqual(found["NVIDIA driver"], "580.95.05")
        self.assertEqual(found["HCA firmware"], "mlx5_2 20.1; mlx5_0, mlx5_1 28.39.1002")

    def test_MachineWithout_HasNoEntry(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(list(machine_facts.versions(folder)), ["Linux"])


if __name__ == "__main__":
    unittest.main()

import pathlib
import tempfile
import unittest

import paths  # noqa: F401  (sets the module path)
from comparelib import launch, transports


class TransportsTest(unittest.TestCase):

    def test_KnownOnes_NameTheirNetworks(self):
        networks = {name: (one.network, one.gpudirect) for name, one in transports.known().items()}
        self.assertEqual(
            networks, {
                "gdr": ("GDR", None),
                "gdr_no_ar": ("GDR", None),
                "gdr_no_gpudirect": ("GDR", "off"),
                "ib": ("IB", None),
                "ib_no_ar": ("IB", None),
                "ib_no_gpudirect": ("IB", "off"),
                "socket": ("Socket", None)
            })

    def test_EnvironmentFiles_AreSourcedByBash(self):
        def environment(name):
            return launch.environment([transports.known()[name].env_file], {},
                                      {"PATH": "/usr/bin:/bin"})

        self.assertEqual(environment("gdr_no_gpudirect")["NCCL_NET_GDR_LEVEL"], "LOC")
        self.assertEqual(environment("gdr_no_gpudirect")["NCCL_NET"], "GDR")
        self.assertNotIn("NCCL_NET_PLUGIN", environment("ib_no_gpudirect"))

    def test_FileThatTurnsGpuDirectOff_KeepsItOff(self):
        one = transports.known()["gdr_no_gpudirect"]
        self.assertEqual(one.settings("on"), {"NCCL_NET_GDR_LEVEL": "LOC"})
        self.assertEqual(one.wanted_gpudirect("auto"), "off")
        self.assertEqual(transports.known()["gdr"].settings("on"), {"NCCL_NET_GDR_LEVEL": "SYS"})

    def test_Plugins_GetAShortNameAndAnyNetwork(self):
        for name, short in (("aws-ofi", "aws-ofi"), ("libnccl-net-ucx.so", "ucx"),
                            ("/usr/lib/x/libnccl-net.so",
                             "libnccl-net.so"), ("/usr/lib/uccl/libnccl-net-uccl.so.1", "uccl")):
            one = transports.from_plugin(name)
            self.assertEqual((one.name, one.network, one.settings("auto")), (short, None, {
                "NCCL_NET_PLUGIN": name
            }))

    def test_OneOfTwoWithTheSameName_IsAnError(self):
        with self.assertRaisesRegex(launch.LaunchError, "two transports have the name gdr"):
            transports.find(["gdr"], ["gdr"])

    def test_FileOfOnesOwn_IsFoundByItsPath(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "mine.env"
            path.write_text("# expects network AWS Libfabric\nNCCL_NET_PLUGIN=aws-ofi\n")
            one = transports.find([str(path), "ib"])["mine"]
            self.assertEqual((one.network, one.gpudirect), ("AWS Libfabric", None))
            self.assertEqual(launch.environment([one.env_file], {})["NCCL_NET_PLUGIN"], "aws-ofi")
            path.write_text("NCCL_NET_PLUGIN=x\n")
            self.assertIsNone(transports.find([str(path)])["mine"].network)
            path.write_text("# expects gpudirect maybe\n")
            with self.assertRaisesRegex(launch.LaunchError, "takes on or off, not maybe"):
                transports.find([str(path)])

    def test_MissingFileOrName_IsNamed(self):
        with self.assertRaisesRegex(launch.LaunchError, "cannot read .*/none.env: No such file"):
            transports.find(["./none.env"])
        with self.assertRaisesRegex(launch.LaunchError,
                                    "no transport 'roce'; there are gdr, .*socket"):
            transports.find(["roce"])


if __name__ == "__main__":
    unittest.main()

import pathlib
import tempfile
import unittest

import paths  # noqa: F401  (sets the module path)
from comparelib import launch, transports


class TransportsTest(unittest.TestCase):

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


if __name__ == "__main__":
    unittest.main()

import unittest

import paths  # noqa: F401  (sets the module path)
from comparelib import nccl_log

_LOG = """\
host1:41022:41030 [0] NCCL INFO cudaDriverVersion 13000
NCCL version 2.28.3+cuda13.0
host1:41022:41030 [0] NCCL INFO NET/Plugin: Loaded net plugin GDR (v11)
host1:41022:41030 [0] NCCL INFO Using network GDR
host1:41022:41031 [1] NCCL INFO Using network GDR
host1:41022:41040 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/GDR/0/GDRDMA
host1:41022:41040 [0] NCCL INFO Channel 01/0 : 1[1] -> 0[0] [receive] via NET/GDR/1(1)/GDRDMA/Shared
host1:41022:41041 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [send] via NET/GDR/0/GDRDMA
host1:41022:41041 [1] proxy.cc:12 NCCL WARN Something is slow
"""


class NcclLogTest(unittest.TestCase):

    def test_Log_Parsed_CountsChannelsByTransport(self):
        log = nccl_log.parse(_LOG)
        self.assertEqual(log.networks, {"GDR"})
        self.assertEqual(log.channels, {"NET/GDR/0/GDRDMA": 2, "NET/GDR/1(1)/GDRDMA/Shared": 1})
        self.assertEqual(log.channel_networks(), {"GDR"})
        self.assertEqual(log.version, "2.28.3+cuda13.0")
        self.assertEqual(log.warnings, ["Something is slow"])
        self.assertEqual((log.plugin, log.cuda, log.empty), ("GDR v11", "13000", False))

    def test_NetworkWithASpace_IsReadWhole(self):
        log = nccl_log.parse(
            "a:1:2 [0] NCCL INFO Using network AWS Libfabric\n"
            "a:1:2 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/AWS Libfabric/2/GDRDMA comm 0x9bb nRanks 4\n"
        )
        self.assertEqual(log.networks, {"AWS Libfabric"})
        self.assertEqual(log.channels, {"NET/AWS Libfabric/2/GDRDMA": 1})
        self.assertEqual(log.channel_networks(), {"AWS Libfabric"})

    def test_LinesOfTwoProcessesInOne_GiveTheFirstNetwork(self):
        log = nccl_log.parse(
            "a:1:2 [0] NCCL INFO Using network IB b:3:4 [1] NCCL INFO comm 0x1 rank 1\n")
        self.assertEqual(log.networks, {"IB"})

    def test_ChannelsOfOldReleases_AreCounted(self):
        log = nccl_log.parse(
            "a:1:2 [0] NCCL INFO Channel 00 : 1[35000] -> 0[f5000] [receive] via NET/IB/0/GDRDMA\n"
                             "a:1:2 [0] NCCL INFO Ring 02 : 0[160] -> 1[160] [send] via NET/AWS Libfabric/0\n")
        self.assertEqual(log.channels, {"NET/IB/0/GDRDMA": 1, "NET/AWS Libfabric/0": 1})

    def test_OtherLines_AreTheLastOnesOfTheProgram(self):
        text = "host:1:1 [0] NCCL INFO Using network IB\n\n" + "".join(f"line {n}\n" for n in range(7))
        self.assertEqual(nccl_log.last_other_lines(text), [f"line {n}" for n in range(2, 7)])
        self.assertEqual(nccl_log.last_other_lines("host:1:1 [0] NCCL WARN Error\n"), [])

    def test_NoLineOfNccl_IsAnEmptyLog(self):
        self.assertTrue(nccl_log.parse("# nThread 1\n        8  2  float\n").empty)


if __name__ == "__main__":
    unittest.main()

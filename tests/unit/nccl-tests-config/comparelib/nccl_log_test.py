import unittest

import paths  # noqa: F401  (sets the module path)
from comparelib import nccl_log

_LOG = """\
# nccl-tests version 2.19.6 nccl-headers=22803 nccl-library=22803
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

    def test_Log_HasNetworksChannelsWarningsAndVersions(self):
        log = nccl_log.parse(_LOG + _LOG.replace("2.28.3", "9"))  # the first version counts
        self.assertEqual((log.networks, log.channel_networks(), log.empty),
                         ({"GDR"}, {"GDR"}, False))
        self.assertEqual(log.channels, {"NET/GDR/0/GDRDMA": 4, "NET/GDR/1(1)/GDRDMA/Shared": 2})
        self.assertEqual(log.warnings, ["Something is slow"] * 2)
        self.assertEqual(log.versions, {"nccl-tests": "2.19.6", "CUDA version of the driver": "13000",
                                        "NCCL": "2.28.3+cuda13.0", "plugin": "GDR v11"})

    def test_Lines_OfEveryRelease_GiveNetworkAndChannel(self):
        channel = "a:1:2 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/"
        for line, networks, channels in (
            ("a:1:2 [0] NCCL INFO Using network AWS Libfabric", {"AWS Libfabric"},
             {}), (f"{channel}AWS Libfabric/2/GDRDMA comm 0x9bb nRanks 4", {"AWS Libfabric"},
                   {"NET/AWS Libfabric/2/GDRDMA": 1
                    }), ("a:1:2 [0] NCCL INFO Using network IB b:3:4 [1] NCCL INFO comm 0x1 rank 1",
                         {"IB"}, {}),
            ("a:1:2 [0] NCCL INFO Channel 00 : 1[35000] -> 0[f5000] [receive] via NET/IB/0/GDRDMA",
             {"IB"}, {"NET/IB/0/GDRDMA": 1}),
            ("a:1:2 [0] NCCL INFO Ring 02 : 0[160] -> 1[160] [send] via NET/AWS Libfabric/0",
             {"AWS Libfabric"}, {"NET/AWS Libfabric/0": 1})):
            with self.subTest(line):
                log = nccl_log.parse(line + "\n")
                self.assertEqual(log.channels, channels)
                self.assertEqual(log.channel_networks() if channels else log.networks, networks)

    def test_OtherLines_AreTheLastOnesOfTheProgram(self):
        text = "host:1:1 [0] NCCL INFO Using network IB\n\n" + "".join(f"line {n}\n" for n in range(7))
        self.assertEqual(nccl_log.last_other_lines(text), [f"line {n}" for n in range(2, 7)])
        self.assertEqual(nccl_log.last_other_lines("host:1:1 [0] NCCL WARN Error\n"), [])


if __name__ == "__main__":
    unittest.main()

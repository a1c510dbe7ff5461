import unittest

import paths  # noqa: F401  (sets the module path)
from comparelib import nccl_log

_LOG = """\
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


if __name__ == "__main__":
    unittest.main()

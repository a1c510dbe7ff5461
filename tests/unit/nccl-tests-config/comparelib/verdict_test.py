import unittest

import samples
from comparelib import launch, nccl_log, verdict

_LOG = """\
host1:41022:41030 [0] NCCL INFO Using network GDR
host1:41022:41031 [1] NCCL INFO Using network GDR
host1:41022:41040 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/GDR/0/GDRDMA
host1:41022:41040 [0] NCCL INFO Channel 01/0 : 1[1] -> 0[0] [receive] via NET/GDR/1(1)/GDRDMA/Shared
host1:41022:41041 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [send] via NET/GDR/0/GDRDMA
"""
_STAGED = _LOG.replace("[send] via NET/GDR/0/GDRDMA", "[send] via NET/GDR/0")
_SOCKET = _LOG.replace("GDR/0/GDRDMA",
                       "Socket/0").replace("GDR/1(1)/GDRDMA/Shared",
                                           "Socket/1").replace("network GDR", "network Socket")


def _second_rank_on(network):
    return _LOG.replace("[1] NCCL INFO Using network GDR", f"[1] NCCL INFO Using network {network}")


class VerdictTest(unittest.TestCase):

    def assert_problems(self, expected, log=_LOG, results=(samples.result(8, 9.5), ), network="GDR",
                        gpudirect="auto", exit_code=0, out_of_bounds=0):
        """`expected` has a pattern for each problem."""
        table = samples.table({}, results=list(results), out_of_bounds={"count": out_of_bounds})
        found = verdict.defects(table, launch.Outcome(exit_code, "", "", 1.0))
        found += verdict.reasons_to_leave_out(table, nccl_log.parse(log), network, gpudirect)
        self.assertEqual(len(found), len(expected), found)
        for text, pattern in zip(found, expected):
            self.assertRegex(text, pattern)

    def test_Transport_MustBeTheRequestedOne(self):
        for log, network, expected in (
                (_LOG, "GDR", []), (_LOG, None, []), (_SOCKET, "Socket", []),
                (_LOG, "IB", ["silent fallback.*GDR.*, not IB", "channels went via NET/GDR, not NET/IB"]),
                (_second_rank_on("Socket"), "GDR", ["silent fallback.*Socket"]),
                ("", "GDR", ["no line 'Using network GDR'", "no channel went over the network"]),
                (_LOG.replace("GDR", "Socket"), None, ["Socket', not the plugin's network", "NET/Socket"]),
                (_second_rank_on("UCX"), None, ["several networks: GDR, UCX"])):
            with self.subTest(network=network, log=log):
                self.assert_problems(expected, log=log, network=network)

    def test_GpuDirect_MustBeAsRequested(self):
        for log, network, gpudirect, expected in (
                (_LOG, "GDR", "on", []), (_STAGED, "GDR", "auto", []),
                (_STAGED, "GDR", "on", ["^1 ends of channels do not"]), (_LOG, "GDR", "off", ["^3 ends"]),
                (_SOCKET, "Socket", "on", [])):
            with self.subTest(gpudirect=gpudirect, log=log):
                self.assert_problems(expected, log=log, network=network, gpudirect=gpudirect)

    def test_Results_MustBeThereOnceAndRight(self):
        row = samples.result(8, 9.5)
        for results, expected in (
                ([], ["no result"]), ([samples.result(8, 9.5, 3.5)], ["^7 wrong values at 8 B"]),
                ([samples.result(8, 9.5, None)], ["no value was checked"]), ([row, row], ["more than once"]),
                ([row, samples.result(8, 9.5, kind="half")], []),
                ([samples.result(0, 9.5), samples.result(0, 9.5), row], [])):
            with self.subTest(results):
                self.assert_problems(expected, results=results)
        self.assert_problems(["^2 values out of bounds"], out_of_bounds=2)


if __name__ == "__main__":
    unittest.main()

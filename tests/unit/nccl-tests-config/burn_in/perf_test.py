"""`nccl-gdr perf sendrecv` as the burn-in starts it, and what it makes of the report."""

import json
import unittest

import paths  # noqa: F401  (sets the module path)
from burn_in import perf
from burn_in.rails import Failure
from burn_in.perf import Job, Outcome
from ends import end

_GPU = {"gpu": 0, "gpu_address": "0000:1a:00.0", "cuda": 1}


def job(kind="bandwidth", **fields):
    return Job(kind, end(0), end(1, **fields), "10.0.0.1", 4000)


def report(second="mlx5_1", memory="host"):
    return json.dumps({"ranks": [{"device_name": "mlx5_0", "memory": "host"},
                                 {"device_name": second, "memory": memory}],
                       "bandwidth": [{"average_mib_s": 1000.0}], "latency": [{"typical_us": 2.5}]})


class PerfTest(unittest.TestCase):

    def test_Ranks_HaveTheSameWordsButTheirNumber(self):
        first, second = (perf.words(job(**_GPU), "tool", rank) for rank in (0, 1))
        self.assertEqual(" ".join(first),
                         "tool perf sendrecv --test bw -b 4M -e 4M --seconds 2 --root 10.0.0.1:4000 "
                         "--rank 0 --dev 0,1 --memory host,cuda:1 --timeout 60 --json -")
        at = first.index("--root")
        self.assertEqual(second, [*first[:at + 3], "1", *first[at + 4:]])

    def test_OtherRails_DoNotReplaceTheOneThatIsMeasured(self):
        for kind in ("bandwidth", "latency"):
            self.assertEqual(perf.variables(kind)["GDR_NCCL_FAILOVER"], "0")
        self.assertNotIn("NCCL_IB_TIMEOUT", perf.variables("bandwidth"))

    def test_Report_OfTheExpectedEnds_IsRead(self):
        for kind, value in (("bandwidth", 8.388608), ("latency", 2.5)):
            for second in ("mlx5_1", "mlx5_1:1"):
                found = perf.value(job(kind), [Outcome(0, report(second))])
                self.assertAlmostEqual(found, value)
        of_gpu = report(memory="cuda:1 (0000:1A:00.0)")
        self.assertTrue(perf.value(job(**_GPU), [Outcome(0, of_gpu)]))

    def test_Report_OfOtherEnds_IsAFailure(self):
        for output, text in (
                (report("mlx5_2"), "device 1 of the plugin is mlx5_2, and not mlx5_1"),
                (report(memory="cuda:1 (0000:1B:00.0)"), "and not of the GPU 0000:1a"),
                ("", "cannot be read"), ("{}", "cannot be read"), ("[]", "cannot be read")):
            with self.subTest(text), self.assertRaisesRegex(Failure, text):
                perf.value(job(**_GPU), [Outcome(0, output)])

    def test_Failure_HasTheCauseAndWhoseFaultItIs(self):
        warning = "node:1:1 [0] NCCL WARN NET/GDR : "
        # (status and errors of both ends, text, fix, is_transfer)
        for server, client, text, fix, is_transfer in (
                # The plugin's log has the cause; a warning about a setting is none.
                ((1, f"{warning}NCCL_X is old\nnccl-gdr: rank 0 failed\n"),
                 (3, f"{warning}connect: QP failed. Fix: look\n"),
                 "status 1: connect: QP failed", "look", True),
                ((1, f"{warning}a lid 1 <-> b lid 2: RETRY_EXC_ERR\n"), (1, ""),
                 "a lid 1 <-> b", "doctor", True),
                ((3, f"{warning}NCCL_X is old\nnccl-gdr: no plugin:\n  a.so: not there. Fix: set\n"),
                 (3, ""), "status 3: no plugin:; a.so: not there", "set", False),
                ((None, ""), (0, ""),
                 "nccl-gdr perf did not end in time: it printed no error", "doctor", False),
                ((-11, ""), (0, ""), "ended by signal 11 (Segmentation fault)", "doctor", False)):
            with self.subTest(text), self.assertRaises(Failure) as caught:
                perf.value(job(), [Outcome(status, "", errors)
                                   for status, errors in (server, client)])
            self.assertIn(text, caught.exception.text)
            self.assertIn(fix, caught.exception.fix)
            self.assertEqual(caught.exception.is_transfer, is_transfer)


if __name__ == "__main__":
    unittest.main()

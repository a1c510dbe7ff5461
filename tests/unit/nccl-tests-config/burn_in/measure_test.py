"""What a run measures, in which order, and what it makes of errors."""

import contextlib
import io
import unittest

import paths  # noqa: F401  (sets the module path)
from burn_in import plan, run
from burn_in.rails import Failure
from burn_in.verdict import FAILURE, UNKNOWN
from ends import rail

_LOST = Failure("Failed status 12", "look at cables", is_transfer=True)


class Meter:
    """Measures 100 Gb/s and 2 us, but for the errors by (subject, kind)."""

    def __init__(self, errors):
        self.errors, self.calls = errors, []

    def measure(self, case, kind):
        self.calls.append((case.subject(), kind))
        if (case.subject(), kind) in self.errors:
            raise self.errors[case.subject(), kind]
        return 100 if kind == "bandwidth" else 2


def measured(cases, errors=()):
    """(results, calls)"""
    meter = Meter(dict(errors))
    with contextlib.redirect_stderr(io.StringIO()):
        return run.measure(cases, meter), meter.calls


class MeasureTest(unittest.TestCase):

    def test_Rail_HasBandwidthAndTheLatencyOfHostMemory(self):
        results, calls = measured(plan.loopback([rail(0, gpus=[0])]))
        host, gpu = (f"rail 0 mlx5_0:1 to itself, {memory}" for memory in ("host memory", "GPU0 (PIX)"))
        self.assertEqual(calls, [(host, "latency"), (host, "bandwidth"), (gpu, "bandwidth")])
        self.assertEqual([(one.gbits, one.latency_us) for one in results],
                         [(100, 2), (100, 0)])

    def test_PairThatIsNotReached_LeavesOutItsGpusAndMeasuresTheSenderByItself(self):
        cases = plan.local([rail(0, gpus=[0]), rail(1)])
        lost = "rail 0 mlx5_0:1 to rail 1 mlx5_1:1, host memory"
        results, _ = measured(cases, {(lost, "latency"): _LOST})
        self.assertEqual([(one.subject, one.is_reached) for one in results],
                         [(lost, False), ("rail 0 mlx5_0:1 to itself, host memory", True),
                          ("rail 1 mlx5_1:1 to rail 0 mlx5_0:1, host memory", True),
                          ("rail 1 mlx5_1:1 to rail 0 mlx5_0:1, host memory, GPU0 (PIX)", None)])
        self.assertEqual(results[0].text, "no message arrived: Failed status 12")

    def test_Errors_AreFaultsOfTheRailOrOfTheMeasurement(self):
        one = plan.loopback([rail(0)])
        pair = plan.local([rail(0), rail(1)])[:1]
        other = Failure("no memory", "raise the limit")
        # (cases, what fails, with what, verdict, text)
        for cases, kind, error, verdict, text in (
                (one, "latency", _LOST, FAILURE, "the transfer failed: Failed status 12"),
                (pair, "bandwidth", _LOST, FAILURE, "the transfer failed: Failed status 12"),
                (pair, "latency", other, UNKNOWN, "not measured: no memory"),
                (one, "bandwidth", other, UNKNOWN, "not measured: no memory")):
            with self.subTest(text):
                results, _ = measured(cases, {(cases[0].subject(), kind): error})
                self.assertEqual([(found.verdict, found.text, found.fix) for found in results],
                                 [(verdict, text, error.fix)])

    def test_OtherMachineThatLeaves_EndsTheRun(self):
        cases = plan.remote([rail(0), rail(1), rail(2)], [rail(0), rail(1), rail(2)])
        left = Failure("it has left", ends=True)
        results, _ = measured(cases, {(cases[1].subject(), "latency"): left})
        self.assertEqual([(one.subject, one.text) for one in results],
                         [("rail 0 mlx5_0:1 <-> mlx5_0:1, host memory", ""),
                          ("the other rails", "not measured: it has left")])


if __name__ == "__main__":
    unittest.main()

import dataclasses
import json
import pathlib
import tempfile
import unittest

import samples
from comparelib import launch, perf_table, preset

_SOURCE = "https://example.org/report: 40 GB/s"


def _entry(**changes):
    return {
        "collective": "all_reduce",
        "nodes": 2,
        "gpus_per_node": 1,
        "bytes": 1 << 20,
        "busbw_gbs": 40.0,
        "kind": "published",
        "source": _SOURCE,
        **changes
    }


def _preset(*entries):
    return preset.Preset("lab", pathlib.Path("lab.env"), "two machines",
                         [preset.Expected(**entry) for entry in entries])


def _session(gdr_us, **options):
    """Bus bandwidth is 1 MiB / time: 26.2 us are 40 GB/s. The output names two hosts with a GPU each."""
    return samples.of_times(
        {
            "gdr": [{
                1 << 20: time
            } for time in gdr_us],
            "ib": [{
                1 << 20: 26.2
            }] * len(gdr_us)
        }, **options)


class JudgeTest(unittest.TestCase):

    def _status(self, gdr_us, *entries, tolerance=preset.TOLERANCE, **options):
        checks, notes = preset.judge(_session(gdr_us, **options), _preset(*entries), tolerance)
        return [(check.side, check.status) for check in checks], notes, checks

    def test_BandwidthWithinTheTolerance_Passes(self):
        self.assertEqual(self._status([28.5], _entry())[0], [("gdr", "pass"),
                                                             ("ib", "pass")])  # 36.8 GB/s
        self.assertEqual(self._status([29.9], _entry())[0], [("gdr", "FAIL"),
                                                             ("ib", "pass")])  # 35.1
        self.assertEqual(self._status([29.9], _entry(), tolerance=0.2)[0][0], ("gdr", "pass"))

    def test_Check_NamesFigureMeasurementAndSpread(self):
        text = str(self._status([40.0, 30.0, 26.0], _entry())[2][0])
        self.assertRegex(
            text,
            r"^FAIL: gdr, all_reduce of 1M on 2 x 1 GPUs: 34\.9\d GB/s \(26\.2\d-40\.3\d\), expected 40 "
            r"GB/s \(published\), at least 36\.00 within 10 %; the best round reaches it")

    def test_SizeThatWasNotMeasured_IsNotJudged(self):
        found, _, checks = self._status([26.0], _entry(bytes=8 << 30))
        self.assertEqual(found[0], ("gdr", "not judged"))
        self.assertIn("all_reduce was not measured at 8G", str(checks[0]))
        self.assertTrue(preset.failed(checks, _preset(_entry()), "gdr"))

    def test_OtherNumberOfNodesOrGpus_IsNotJudged(self):
        found, notes, checks = self._status([26.0], _entry(nodes=2, gpus_per_node=8))
        self.assertEqual(found, [])
        self.assertEqual(notes, [
            "Preset lab has figures for 2 x 8 GPUs only (nodes x GPUs of each), not for 2 ranks on 2 "
            "hosts."
        ])
        self.assertTrue(preset.failed(checks, _preset(_entry()), "gdr"))
        self.assertEqual(self._status([26.0], _entry(nodes=1, gpus_per_node=2))[0], [])

    def test_RunsThatNameNoHost_HaveNoNumberOfNodes(self):
        session = samples.of_times({"gdr": [{}], "ib": [{}]}, ranks=8)
        empty = perf_table.parse("")
        session.runs = [dataclasses.replace(run, table=empty) for run in session.runs]
        notes = preset.judge(session, _preset(_entry(gpus_per_node=8)))[1]
        self.assertTrue(notes[0].endswith("not for 8 ranks on hosts that no output names."), notes)

    def test_RanksOfOneHostThatUseTheNetwork_AreLikeNodes(self):
        self.assertEqual(
            len(self._status([26.0], _entry(nodes=1, gpus_per_node=2), one_host=True)[0]), 2)
        self.assertEqual(len(self._status([26.0], _entry(), one_host=True)[0]), 2)

    def test_PresetWithoutFigures_FailsNothing(self):
        found, notes, checks = self._status([26.0])
        self.assertEqual((found, notes),
                         ([], ["Preset lab has no expected figure, so nothing was judged."]))
        self.assertFalse(preset.failed(checks, _preset(), "gdr"))

    def test_OnlyTheJudgedSide_Decides(self):
        checks = self._status([29.9], _entry())[2]
        self.assertTrue(preset.failed(checks, _preset(_entry()), "gdr"))
        self.assertFalse(preset.failed(checks, _preset(_entry()), "ib"))
        self.assertEqual([preset.status(found, "gdr") for found in (checks, checks[1:])],
                         [preset.FAIL, preset.NOT_JUDGED])
        self.assertEqual(preset.status(checks, "ib"), preset.PASS)


class GapsTest(unittest.TestCase):

    def _gaps(self, *entries, ranks=2, programs=("all_reduce_perf",), sizes=(1 << 20,)):
        return preset.gaps(_preset(*entries), ranks, programs, sizes)

    def test_FigureThatWillBeMeasured_LeavesNone(self):
        self.assertEqual(self._gaps(_entry()), [])
        self.assertEqual(self._gaps(), [])

    def test_OtherRanks_AreKnownBefore(self):
        self.assertEqual(self._gaps(_entry(), ranks=16), [
            "Preset lab has no figure for 16 ranks, only for 2 x 1 GPUs."])

    def test_SizeOrCollectiveThatIsNotMeasured_IsKnownBefore(self):
        text = "The figure of preset lab for all_reduce of 1M on 2 x 1 GPUs cannot be judged"
        self.assertRegex(self._gaps(_entry(), sizes=(8, 1 << 21))[0], text)
        self.assertRegex(self._gaps(_entry(), programs=("sendrecv_perf",))[0], text)


class LoadTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.env = self.folder / "lab.env"
        self.env.write_text("NCCL_IB_TC=106\n")

    def _load(self, figures):
        (self.folder / "expected.json").write_text(figures)
        return preset.load(str(self.env))

    def test_FileAndFigures_AreRead(self):
        loaded = self._load(
            json.dumps({
                "lab": {
                    "machine": "two machines",
                    "results": [_entry()]
                },
                "other": {}
            }))
        self.assertEqual((loaded.name, loaded.machine, loaded.env_file),
                         ("lab", "two machines", self.env.resolve()))
        self.assertEqual(str(loaded.results[0]), "all_reduce of 1M on 2 x 1 GPUs")

    def test_PresetWithoutAnEntry_HasNoFigures(self):
        self.assertEqual(self._load("{}").results, [])

    def test_UnusableFigures_AreNamed(self):
        for change in ({"bytes": "1M"}, {"busbw_gbs": None}, {"nodes": True}, {"source": 3}):
            text = json.dumps({"lab": {"results": [_entry(), _entry(**change)]}})
            with self.assertRaisesRegex(launch.LaunchError,
                                        f"result 2 of lab has no usable {list(change)[0]}"):
                self._load(text)
        with self.assertRaisesRegex(launch.LaunchError, "cannot read .*expected.json"):
            self._load("{")

    def test_UnknownPreset_NamesTheKnownOnes(self):
        with self.assertRaisesRegex(launch.LaunchError, "no preset no-such-9; there are: "):
            preset.load("no-such-9")

    def test_PresetsOfTheTree_AreUsable(self):
        for name in preset.names():
            preset.load(name)


if __name__ == "__main__":
    unittest.main()

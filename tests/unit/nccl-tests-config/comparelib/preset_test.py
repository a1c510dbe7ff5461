import dataclasses
import json
import pathlib
import tempfile
import unittest

import samples
from comparelib import launch, perf_json, preset

_ENTRY = {
    "collective": "all_reduce", "nodes": 2, "gpus_per_node": 1, "bytes": 1 << 20, "busbw_gbs": 40.0,
    "kind": "published", "source": "https://example.org/report: 40 GB/s"}


def _preset(*changes):
    """A preset with a figure for each set of changes."""
    return preset.Preset("lab", pathlib.Path("lab.env"),
                         [preset.Expected(**{**_ENTRY, **change}) for change in changes])


def _session(gdr_us, **facts):
    """Bus bandwidth is 1 MiB / time: 26.2 us are 40 GB/s. The results name two hosts with a GPU each."""
    return samples.of_times(
        {"gdr": [{1 << 20: time} for time in gdr_us], "ib": [{1 << 20: 26.2}] * len(gdr_us)},
        **facts)


class JudgeTest(unittest.TestCase):

    def test_Figures_AreJudgedWhereTheyApply(self):
        for gdr_us, changes, facts, statuses, failed in (
                (28.5, {}, {}, ["pass", "pass"], False),  # 36.8 GB/s
                (29.9, {}, {}, ["FAIL", "pass"], True),  # 35.1
                (26.0, {"bytes": 8 << 30}, {}, ["not judged"] * 2, True),
                (26.0, {"collective": "sendrecv"}, {}, ["not judged"] * 2, True),
                (26.0, {"gpus_per_node": 8}, {}, [], True),
                (26.0, {"nodes": 1, "gpus_per_node": 2}, {}, [], True),
                # On one host whose ranks use the network, each rank is like a node.
                (26.0, {"nodes": 1, "gpus_per_node": 2}, {"one_host": True}, ["pass"] * 2, False),
                (26.0, {}, {"one_host": True}, ["pass"] * 2, False)):
            with self.subTest(changes, gdr_us=gdr_us):
                checks, notes = preset.judge(_session([gdr_us], **facts), _preset(changes))
                self.assertEqual([check.status for check in checks], statuses)
                self.assertEqual(bool(notes), not statuses)
                self.assertEqual(preset.failed(checks, _preset(changes), "gdr"), failed)

    def test_Check_NamesFigureMeasurementAndSpread(self):
        self.assertRegex(
            str(preset.judge(_session([40.0, 30.0, 26.0]), _preset({}))[0][0]),
            r"^FAIL: gdr, all_reduce of 1M on 2 x 1 GPUs: 34\.9\d GB/s \(26\.2\d-40\.3\d\), expected 40 GB/s "
            r"\(published\), at least 36\.00 within 10 %; the best round reaches it")

    def test_PresetWithoutFigures_FailsNothing(self):
        self.assertEqual(preset.judge(_session([26.0]), _preset()),
                         ([], ["Preset lab has no expected figure, so nothing was judged."]))
        self.assertFalse(preset.failed([], _preset(), "gdr"))

    def test_Notes_NameNodesOfTheRuns(self):
        session = _session([26.0], ranks=8)
        text = "Preset lab has figures for 2 x 8 GPUs only (nodes x GPUs of each), not for 8 ranks on {} hosts."
        self.assertEqual(preset.judge(session, _preset({"gpus_per_node": 8}))[1], [text.format(2)])
        session.runs = [
            dataclasses.replace(run, table=perf_json.PerfTable()) for run in session.runs]
        self.assertEqual(
            preset.judge(session, _preset({"gpus_per_node": 8}))[1], [text.format("unknown")])


class LoadTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.env = self.folder / "lab.env"
        self.env.write_text("NCCL_IB_TC=106\n")

    def load(self, figures):
        (self.folder / "expected.json").write_text(figures)
        return preset.load(str(self.env))

    def test_Unusable_IsNamed(self):
        for text in (json.dumps({"lab": {"results": [{"nodes": 2}]}}), "{"):
            with self.assertRaisesRegex(launch.LaunchError, "cannot read .*expected.json"):
                self.load(text)
        with self.assertRaisesRegex(launch.LaunchError, "no preset no-such-9; there are: "):
            preset.load("no-such-9")


if __name__ == "__main__":
    unittest.main()

import dataclasses
import json
import pathlib
import tempfile
import unittest

import samples
from comparelib import baseline, rounds


def _session(gdr, ib=None, **facts):
    times = {"gdr": gdr} if ib is None else {"gdr": gdr, "ib": ib}
    return samples.of_times(times, base=list(times)[-1], **facts)


class JudgedTest(unittest.TestCase):

    def _judged(self, before, now, tolerance=0.05):
        return baseline.judged(rounds.summary(before), rounds.summary(now), tolerance)

    def test_EveryRoundSlowerThanTheMedian_IsSlower(self):
        self.assertEqual(self._judged([10, 10.2, 9.9], [11, 11.5, 12]), baseline.SLOWER)

    def test_WithinTheTolerance_IsTheSame(self):
        self.assertEqual(self._judged([10, 10, 10], [10.5, 10.5, 10.5]), baseline.SAME)
        self.assertEqual(self._judged([10, 10, 10], [10.5, 10.5, 10.5], 0.04), baseline.SLOWER)

    def test_RoundThatReachesTheBaseline_LeavesItUndecided(self):
        self.assertEqual(self._judged([10, 10, 10], [9.9, 12, 12]), baseline.UNDECIDED)

    def test_OneSlowRoundOfTheBaseline_HidesNothing(self):
        self.assertEqual(self._judged([10, 10, 30], [12, 12, 12]), baseline.SLOWER)

    def test_EveryRoundFaster_IsFaster(self):
        self.assertEqual(self._judged([10, 10, 10], [9, 9, 9]), baseline.FASTER)
        self.assertEqual(self._judged([10, 10, 10], [9, 9, 11]), baseline.SAME)


class FileTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "base.json"

    def test_SavedSession_ComparedWithItself_HasNoChange(self):
        session = _session([{8: 10, 1024: 20}] * 3, [{8: 20, 1024: 30}] * 3)
        baseline.save(session, self.path, "out")
        record = baseline.load(self.path)
        self.assertEqual(baseline.obstacles(session, record), [])
        changes = baseline.changes(session, record)
        self.assertEqual([(change.side, change.size, change.verdict) for change in changes], [
            ("gdr", 8, "same"), ("gdr", 1024, "same"), ("ib", 8, "same"), ("ib", 1024, "same")])
        self.assertEqual(baseline.sentences(changes),
                         ["4 sizes: 0 slower, 0 undecided, 0 faster, 4 same"])
        self.assertEqual(baseline.updates(session, record), [])

    def test_SlowerSize_IsNamedWithBothSpreads(self):
        baseline.save(_session([{8: 10, 1024: 20}] * 3), self.path, "out")
        now = _session([{8: 10, 1024: 25}, {8: 10, 1024: 24}, {8: 10, 1024: 26}])
        lines = baseline.sentences(baseline.changes(now, baseline.load(self.path)))
        self.assertEqual(
            lines[0],
            "slower: all_reduce_perf over gdr at 1K: 25.00 us (24.00-26.00), baseline 20.00 us "
            "(20.00-20.00), -20.0 % in speed")
        self.assertEqual(lines[-1], "2 sizes: 1 slower, 0 undecided, 0 faster, 1 same")

    def test_OtherMachineSizesOrTransport_AreObstacles(self):
        record = baseline.as_record(_session([{8: 10, 1024: 20}], ranks=2, mode="threads"))
        self.assertEqual(
            baseline.obstacles(_session([{
                8: 10,
                1024: 20
            }], ranks=4, mode="processes"), record), [
                "other number of ranks: 4, in the baseline 2",
                "other --mode: processes, in the baseline threads"
            ])
        self.assertEqual(baseline.obstacles(_session([{8: 10}]), record), [
            "all_reduce_perf over gdr was not measured at 1K"])
        other = samples.of_times({"ib": [{8: 10, 1024: 20}]})
        self.assertEqual(baseline.obstacles(other, record),
                         ["all_reduce_perf over gdr was not measured"])
        record["machine"]["hosts"] = ["elsewhere"]
        record["machine"]["gpus"] = {"NVIDIA H100": 2}
        self.assertEqual(baseline.obstacles(_session([{8: 10, 1024: 20}]), record), [
            "other hosts: host1, host2, in the baseline elsewhere",
            "other GPUs: 2 x NVIDIA H200, in the baseline 2 x NVIDIA H100"])

    def test_OtherDataTypeOrOptions_AreObstacles(self):
        facts = {"gpudirect": "auto", "preset": None, "arguments": "none"}
        record = baseline.as_record(_session([{8: 10}], **facts))
        self.assertEqual(baseline.obstacles(_session([{8: 10}], **facts), record), [])
        other = _session([{8: 10}], gpudirect="off", preset="dgx_h100", arguments="-d half")
        rows = [dataclasses.replace(row, kind="half sum") for row in other.runs[0].table.rows]
        other.runs[0] = dataclasses.replace(
            other.runs[0], table=dataclasses.replace(other.runs[0].table, rows=rows))
        self.assertEqual(baseline.obstacles(other, record), [
            "other data types: half, in the baseline float", "other --gpudirect: off, in the baseline auto",
            "other --preset: dgx_h100, in the baseline none",
            "other arguments after --: -d half, in the baseline none"])
        # Outputs that were read do not show the options.
        self.assertEqual(baseline.obstacles(_session([{8: 10}]), record), [])

    def test_OtherHalf_IsAnObstacle(self):
        session = _session([{8: 10}])
        record = baseline.as_record(session)
        session.in_place = True
        self.assertIn("other half: in place, in the baseline out of place",
                      baseline.obstacles(session, record))

    def test_RunsThatAreLeftOut_AreNotKept(self):
        session = _session([{8: 10}])
        session.runs[0] = samples.run("gdr", 0, {8: 10}, left_out=["silent fallback"])
        with self.assertRaisesRegex(baseline.BaselineError, "no run counts"):
            baseline.save(session, self.path, "out")
        self.assertFalse(self.path.exists())

    def test_SessionWithADefect_IsKeptByForceOnly(self):
        session = _session([{8: 10}, {8: 11}])
        session.runs[1] = samples.run("gdr", 1, {8: 11}, defects=["3 wrong values at 8 B"])
        with self.assertRaisesRegex(baseline.BaselineError, "1 of 2 runs are not as requested; "
                                    "--read out --save-baseline FILE writes it later, with --force"):
            baseline.save(session, self.path, "out")
        self.assertFalse(self.path.exists())
        baseline.save(session, self.path, "out", force=True)
        self.assertTrue(self.path.exists())

    def test_FileThatCannotBeWritten_IsRefusedBeforeTheRuns(self):
        baseline.check_target(self.path)
        for path, text in ((self.path.parent / "absent" / "b.json", "there is no folder .*absent"),
                           (self.path.parent, "this is a folder")):
            with self.assertRaisesRegex(baseline.BaselineError, text):
                baseline.check_target(path)

    def test_SideWhoseRunsFailed_IsALossAndNoObstacle(self):
        record = baseline.as_record(_session([{8: 10}], [{8: 20}]))
        now = _session([{8: 10}], [{8: 20}])
        now.runs[0] = samples.run("gdr", 0, {8: 10}, left_out=["silent fallback"])
        self.assertEqual(baseline.obstacles(now, record), [])
        self.assertEqual(baseline.losses(now, record),
                         ["all_reduce_perf over gdr was not measured, as its runs failed"])

    def test_PlanOfOtherRuns_IsKnownBeforeThem(self):
        record = baseline.as_record(_session([{8: 10, 16: 20}], ranks=2, mode="threads",
                                             asked_sizes=[8, 16]))
        plan = {("gdr", "all_reduce_perf")}

        def found(machine=None, plan=plan, asked=(8, 16, 32), place="out of place"):
            return baseline.planned_obstacles({"ranks": 2, "mode": "threads", **(machine or {})},
                                              place, plan, asked, record)
        self.assertEqual(found(), [])
        self.assertEqual(found(asked=None), [])
        self.assertEqual(found(asked=(8, 32)), ["these runs do not measure 16"])
        self.assertEqual(found({"mode": "processes"}),
                         ["other --mode: processes, in the baseline threads"])
        self.assertEqual(found(plan={("ib", "all_reduce_perf")}),
                         ["all_reduce_perf over gdr is in the baseline, and not among these runs"])
        self.assertEqual(found(place="in place"),
                         ["other half: in place, in the baseline out of place"])

    def test_Control_IsNotKept(self):
        session = samples.of_times({"ib": [{8: 10}], "ib#2": [{8: 11}]}, control="ib#2")
        self.assertEqual(list(baseline.as_record(session)["results"]), ["ib"])

    def test_Updates_NameWhatChangedSince(self):
        record = baseline.as_record(_session([{8: 10}], versions={"NVIDIA driver": "570.1"}))
        session = _session([{8: 10}], versions={"NVIDIA driver": "580.2"})
        self.assertEqual(baseline.updates(session, record),
                         ["NVIDIA driver: 570.1 before, 580.2 now"])

    def test_SizesThatAreNew_AreNamed(self):
        record = baseline.as_record(_session([{8: 10}]))
        self.assertEqual(baseline.additions(_session([{8: 10, 16: 11}]), record), [
            "all_reduce_perf over gdr: 1 sizes are not in the baseline."])

    def test_DamagedFile_IsRefusedWithTheReason(self):
        record = baseline.as_record(_session([{8: 10}]))
        bad = [({"nccl_compare_baseline": 1}, "has no usable 'date'")]
        bad += [({name: value for name, value in record.items() if name != missing}, f"no usable '{missing}'")
                for missing in ("date", "machine", "versions", "place", "results")]
        bad += [({**record, "results": results}, "has no usable times") for results in (
            {}, {"gdr": []}, {"gdr": {"p": {"8": {}}}}, {"gdr": {"p": {"8": {"time_us": []}}}},
            {"gdr": {"p": {"x": {"time_us": [1]}}}}, {"gdr": {"p": {"8": {"time_us": ["1"]}}}})]
        for content, reason in bad:
            self.path.write_text(json.dumps(content))
            with self.subTest(content), self.assertRaisesRegex(baseline.BaselineError, f"is damaged: .*{reason}|{reason}"):
                baseline.load(self.path)

    def test_OtherFiles_AreRefusedWithTheReason(self):
        with self.assertRaisesRegex(baseline.BaselineError,
                                    "cannot read .*base.json: No such file"):
            baseline.load(self.path)
        for text, reason in (("{", "is no JSON"), ("[]", "is no baseline of this version"),
                             (json.dumps({"nccl_compare_baseline": 99}),
                              "is no baseline of this version")):
            self.path.write_text(text)
            with self.assertRaisesRegex(baseline.BaselineError, reason):
                baseline.load(self.path)


if __name__ == "__main__":
    unittest.main()

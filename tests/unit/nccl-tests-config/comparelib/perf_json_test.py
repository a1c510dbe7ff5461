import unittest

import samples
from comparelib import perf_json


class ParseTest(unittest.TestCase):

    def test_Results_GiveRowsAndFacts(self):
        table = samples.table({8: 20.5, 1 << 20: 131.25})
        self.assertEqual([row.size for row in table.rows], [8, 1 << 20])
        self.assertEqual(table.rows[0].out_of_place,
                         perf_json.Measure(20.5, 8 / 20.5e3, 8 / 20.5e3, 0))
        self.assertEqual((table.rows[0].kind, table.rows[0].wrong()), ("float sum", 0))
        self.assertEqual((table.program, table.library, table.out_of_bounds),
                         ("all_reduce_perf", "22803", 0))
        self.assertEqual((table.ranks, table.gpus, table.hosts), (2, ["NVIDIA H200"] * 2, ["host1", "host2"]))
        self.assertEqual((table.cpu_time, table.notes), (False, []))

    def test_DevicesOfAProcess_CountForAllItsGpus(self):
        config = {"nthreads": 2, "ngpus": 2, "devices": [{"hostname": "a", "device_info": "H100"}]}
        table = samples.table({8: 20}, config=config)
        self.assertEqual((table.ranks, table.gpus, table.hosts), (4, ["H100"] * 4, ["a"] * 4))

    def test_GpuOfSeveralRanks_IsCountedOnce(self):
        for buses, gpus in ((("0000:18:00", "0000:18:00"), 1), (("0000:18:00", "0000:2a:00"), 2), ((None, None), 2)):
            devices = [{"hostname": "a", **({"device_hex": bus} if bus else {}), "device_info": "H100"} for bus in buses]
            table = samples.table({8: 20}, config={"devices": devices})
            self.assertEqual((table.ranks, table.gpus), (2, ["H100"] * gpus))

    def test_Variants_AreRead(self):
        text = samples.json_text({8: 20})
        for before, after, check in (
                ('"nwrong":0.0', '"nwrong":null', lambda table: table.rows[0].wrong() is None),
                ('"time":', '"cpu_time":', lambda table: table.cpu_time and table.rows[0].in_place.time_us == 20),
                ('"redop":"sum"', '"redop":"none"', lambda table: table.rows[0].kind == "float"),
                ("all_reduce_perf", "all_reduce_perf_mpi", lambda table: table.program == "all_reduce_perf")):
            with self.subTest(after):
                self.assertTrue(check(perf_json.parse(text.replace(before, after))))

    def test_TimesThatAreNone_AreNoResultsAndNamed(self):
        text = samples.json_text({8: 20})
        for time in ("inf", '"nan"', "-1", "0"):
            with self.subTest(time):
                table = perf_json.parse(text.replace('"time":20', f'"time":{time}', 1))
                self.assertIsNone(table.rows[0].out_of_place)
                self.assertRegex(table.notes[0], "^at 8 B the time is ")
        start = text.index('"out_of_place":') + len('"out_of_place":')
        table = perf_json.parse(text[:start] + "null" + text[text.index("}", start) + 1:])
        self.assertEqual((table.rows[0].out_of_place, table.notes), (None, []))

    def test_OtherTexts_AreErrors(self):
        whole = samples.json_text({8: 20, 16: 21})
        for text, reason in (("[1]", "lacks or misstates"), ("{}", "results"),
                             ('{"results": 3}', "lacks or misstates"), ("", "no complete JSON"),
                             (whole[:-1], "no complete JSON"),
                             ('{"results": [{"size": 8, "out_of_place": {"time": 1}}]}', "alg_bw")):
            with self.subTest(text), self.assertRaisesRegex(perf_json.JsonError, reason):
                perf_json.parse(text)


if __name__ == "__main__":
    unittest.main()

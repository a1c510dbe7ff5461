import unittest

import paths  # noqa: F401  (sets the module path)
import check_page

GOOD = """# HELP gdr_moved_total Data.
# TYPE gdr_moved_total counter
gdr_moved_total{port="1",device="a\\"b,c"} 1
gdr_moved_total{port="2",device="a"} 2
# HELP gdr_open Connections.
# TYPE gdr_open gauge
gdr_open 0
"""


@unittest.skipIf(check_page.parser is None, "the package python3-prometheus-client is not installed")
class CheckPage(unittest.TestCase):
    def expect(self, text, objection):
        found = check_page.objections(text)
        self.assertTrue(any(objection in one for one in found), found)

    def test_good_page(self):
        self.assertEqual(check_page.objections(GOOD), [])

    def test_histogram_and_summary(self):
        self.assertEqual(check_page.objections(
            "# HELP a_seconds Time.\n# TYPE a_seconds histogram\n"
            'a_seconds_bucket{le="1"} 1\na_seconds_bucket{le="+Inf"} 1\na_seconds_sum 1\na_seconds_count 1\n'), [])

    def test_each_fault_is_found(self):
        for before, after, objection in (
                ("gdr_open 0\n", "gdr_open 0", "no line feed at the end"),
                ("gdr_open 0\n", "gdr_open zero\n", "prometheus_client cannot read it"),
                ("gdr_open 0\n", "gdr_open 0\ngdr_open 1\n", "the series is there twice"),
                ("gdr_open 0\n", "gdr_open 0\ngdr_moved_total 1\n", "was complete before"),
                ("gdr_open 0\n", 'gdr_open{le="1"} 0\n', "label le is for histograms"),
                ("gdr_open 0\n", 'gdr_open{deviceName="1"} 0\n', "label deviceName"),
                ("gdr_open 0\n", 'gdr_open{a="1",a="2"} 0\n', "a label twice"),
                ("gdr_open 0\n", 'gdr_open{a="1" b="2"} 0\n', "labels that cannot be read"),
                ("# HELP gdr_open Connections.\n", "", "gdr_open: no HELP"),
                ("# TYPE gdr_open gauge\n", "", "gdr_open: no TYPE"),
                ("# TYPE gdr_open gauge\n", "# TYPE gdr_open gauge\n# TYPE gdr_open gauge\n", "second TYPE"),
                ("gdr_open gauge", "gdr_open number", "no type"),
                ("gdr_open gauge", "gdr_open counter", "the name of a counter ends in _total"),
                ("gdr_moved_total counter", "gdr_moved_total gauge", "_total is for counters"),
                ("gdr_open", "gdr_open_count", "_count is for histograms"),
                ("gdr_open", "gdr_open_gauge", "the name has the type"),
                ("gdr_open", "gdrOpen", "not in snake_case"),
                ("gdr_open", "gdr:open", "colons are for rules"),
                ("gdr_open", "gdr_open_ms", "the unit ms is abbreviated"),
                ("gdr_open", "gdr_open_milliseconds", "is no base unit")):
            with self.subTest(after=after):
                self.assertIn(before, GOOD)
                self.expect(GOOD.replace(before, after), objection)

    def test_page_without_samples(self):
        self.expect("\n", "no sample")


if __name__ == "__main__":
    unittest.main()

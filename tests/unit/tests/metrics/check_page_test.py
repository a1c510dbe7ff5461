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
    def test_Faults_AreFoundAndAGoodPageHasNone(self):
        self.assertEqual(check_page.objections(GOOD), [])
        for before, after, objection in (
                ("gdr_open 0\n", "gdr_open 0", "no line feed at the end"),
                ("gdr_open 0\n", "gdr_open zero\n", "prometheus_client cannot read it"),
                ("gdr_open 0\n", "gdr_open 0\ngdr_open 1\n", "the series is there twice"),
                ("gdr_open 0\n", "gdr_open 0\ngdr_moved_total 1\n", "not one group"),
                ("# HELP gdr_open Connections.\n", "", "gdr_open: not one HELP"),
                ("# TYPE gdr_open gauge\n", "", "gdr_open: not one TYPE"),
                ("gdr_open gauge", "gdr_open counter", "_total is the end"),
                ("gdr_moved_total counter", "gdr_moved_total gauge", "_total is the end"),
                (GOOD, "\n", "no sample")):
            with self.subTest(after):
                self.assertIn(before, GOOD)
                found = check_page.objections(GOOD.replace(before, after))
                self.assertTrue(any(objection in one for one in found), found)


if __name__ == "__main__":
    unittest.main()

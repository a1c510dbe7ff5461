import unittest
from pathlib import Path

import paths  # noqa: F401  (sets the module path)
import check_mirror


class CheckMirrorTest(unittest.TestCase):

    def test_TestsWithoutACounterpart_Checked_AreFound(self):
        names = ["tests/unit/transport/data/rail_test.cc", "tests/unit/select/cidr_test.cc",
                 "tests/unit/run_test.py", "tests/unit/other/helper.h"]
        folders = {Path("transport/data"), Path("transport")}
        found = list(check_mirror.unmirrored(names, folders))
        self.assertEqual(len(found), 1)
        self.assertIn("tests/unit/select holds tests", found[0])

    def test_PathOutsideTheCheckout_Checked_IsFound(self):
        for line in ('set(x "${PROJECT_SOURCE_DIR}/../other")', 'open("../shared/a.xml")',
                     'read("/home/me/machine.xml")'):
            self.assertEqual(len(list(check_mirror.leaving("a.cc", line))), 1, line)

    def test_PathsOfTheSystemAndTheCheckout_Checked_AreNotFound(self):
        for line in ('open("/proc/self/status")', 'set(x "${PROJECT_SOURCE_DIR}/tests/topologies")',
                     '#include "tests/fakes/verbs/fake_verbs.h"', 'run("/no/such/file.so")'):
            self.assertEqual(list(check_mirror.leaving("a.cc", line)), [], line)


if __name__ == "__main__":
    unittest.main()

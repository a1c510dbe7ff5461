import unittest

import paths  # noqa: F401  (sets the module path)
import callgrind_file

# main (driver) calls plugin's isend, which calls the HCA's post_send and itself.
_PROFILE = """\
version: 1
creator: callgrind-3.19.0
cmd: driver
positions: line
events: Ir
summary: 200

ob=(1) /build/bin/driver
fl=(1) driver.cc
fn=(1) sender_isend
10 7
+2 3
cob=(2) /build/lib/plugin.so
cfi=(2) send.cc
cfn=(2) isend
calls=1 +30
* 190

ob=(2)
fl=(2)
fn=(2)
40 50
-3 25
cob=(3) /build/softhca/libibverbs.so.1
cfn=(3) post_send
calls=1 5
40 100
* 15

ob=(3)
fn=(3)
5 60
* 40
"""


class CallgrindFileTest(unittest.TestCase):

    def test_Profile_AddedUp_CountsOwnInstructionsOnly(self):
        self.assertEqual(callgrind_file.self_cost_by_object(_PROFILE),
                         {"driver": 10, "plugin.so": 90, "libibverbs.so.1": 100})


if __name__ == "__main__":
    unittest.main()

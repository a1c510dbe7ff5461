import argparse
import contextlib
import io
import unittest
from unittest import mock

import paths  # noqa: F401  (sets the module path)
from bench_program import load
from number_argument import positive, positive_real


class NumberTest(unittest.TestCase):
    def test_NumbersAboveZero_AreTaken(self):
        self.assertEqual(positive("15"), 15)
        self.assertEqual(positive_real("0.5"), 0.5)

    def test_OthersAreNamed(self):
        for kind, texts in ((positive, ("0", "-1", "1.5", "x", "")),
                            (positive_real, ("0", "-0.5", "inf", "nan", "x", ""))):
            for text in texts:
                with self.subTest(text=text), self.assertRaisesRegex(argparse.ArgumentTypeError, "is not a "):
                    kind(text)


class ProgramsTest(unittest.TestCase):
    def test_NoRounds_AreRefusedByEveryProgram(self):
        for program, option in (("softhca_ratio", "--repeat"), ("connections", "--rounds"),
                                ("connections", "--polls"), ("connections", "--connections"),
                                ("instructions", "--messages"), ("rails_throughput", "--rounds"),
                                ("rails_throughput", "--gbps"), ("vm_lossy_rail", "--rounds")):
            with self.subTest(program=program, option=option):
                module, errors = load(program), io.StringIO()
                with mock.patch("sys.argv", [program, option, "0"]), contextlib.redirect_stderr(errors):
                    with self.assertRaises(SystemExit) as ended:
                        module.parse_options()
                self.assertEqual(ended.exception.code, 2)
                self.assertRegex(errors.getvalue(), f"argument {option}: '0' is not a ")


if __name__ == "__main__":
    unittest.main()

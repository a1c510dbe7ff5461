import argparse
import contextlib
import io
import pathlib
import unittest
from unittest import mock

import paths  # noqa: F401  (sets the module path)
from against_perftest import parse_peer
from arguments import Plugin, one_name, positive, positive_real
from bench_program import load


class ArgumentsTest(unittest.TestCase):
    def test_Numbers_AboveZeroAreTakenAndOthersNamed(self):
        self.assertEqual((positive("15"), positive_real("0.5")), (15, 0.5))
        for kind, texts in ((positive, ("0", "-1", "1.5", "x", "")),
                            (positive_real, ("0", "-0.5", "inf", "nan", "x", ""))):
            for text in texts:
                with self.assertRaisesRegex(argparse.ArgumentTypeError, "is not a "):
                    kind(text)

    def test_Plugins_HaveNameFileAndTable(self):
        for text, name, file, table in (
                ("sharp=/a/b.so:8", "sharp", "/a/b.so", "8"), ("x=/a:b.so", "x", "/a:b.so", "newest"),
                ("/a/libnccl-net.so.1:12", "libnccl-net", "/a/libnccl-net.so.1", "12"),
                ("=/a/b.so", "b", "/a/b.so", "newest")):
            plugin = Plugin.parse(text)
            self.assertEqual(plugin, Plugin(name, pathlib.Path(file), table))
            self.assertEqual(Plugin.parse(str(plugin)), plugin)
        for text in ("", "x=", "x=:8", ":8"):
            with self.assertRaises(argparse.ArgumentTypeError):
                Plugin.parse(text)

    def test_Peers_HaveANameOfTheirOwn(self):
        self.assertEqual(parse_peer("sharp=/a/b.so:8"), Plugin("sharp", pathlib.Path("/a/b.so"), "8"))
        for text in ("/a/b.so", "=/a/b.so", "x=", "x", "x=:8", "own=/a/b.so", "perftest=/a/b.so"):
            with self.assertRaises(argparse.ArgumentTypeError):
                parse_peer(text)
        one, other = Plugin("a", pathlib.Path("/a.so")), Plugin("b", pathlib.Path("/a.so"))
        self.assertIsNone(one_name("--peer", [one, other]))
        self.assertRegex(one_name("--peer", [one, other, one]), "--peer a=/a.so:newest and .* have one name")

    def test_NoRounds_AreRefusedByEveryProgram(self):
        for program, option in (("softhca_ratio", "--repeat"), ("connections", "--rounds"),
                                ("connections", "--polls"), ("connections", "--connections"),
                                ("instructions", "--messages"), ("rails_throughput", "--rounds"),
                                ("rails_throughput", "--gbps"), ("vm_lossy_rail", "--rounds")):
            errors = io.StringIO()
            with mock.patch("sys.argv", [program, option, "0"]), contextlib.redirect_stderr(errors):
                with self.assertRaises(SystemExit):
                    load(program).parse_options()
            self.assertRegex(errors.getvalue(), f"argument {option}: '0' is not a ")


if __name__ == "__main__":
    unittest.main()

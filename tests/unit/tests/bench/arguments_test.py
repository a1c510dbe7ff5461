import argparse
import contextlib
import io
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import paths  # noqa: F401  (sets the module path)
import arguments
from arguments import Plugin, parse_one, parse_own, parse_peer, positive, positive_real
from bench_program import load


def message(call, *words):
    """What the call prints where it ends as an error of the options; "" where it does not."""
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.suppress(SystemExit):
        call(*words)
    return errors.getvalue()


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
        for parse, text, name in ((parse_one, "/a/b.so:8", "own"), (parse_one, "x=/a/b.so", "x"),
                                  (parse_own, "/a/b.so:8", "own"), (parse_own, "x=/a/b.so", "own")):
            self.assertEqual(parse(text).name, name)
        self.assertEqual(parse_peer("sharp=/a/b.so:8"), Plugin("sharp", pathlib.Path("/a/b.so"), "8"))
        for parse, texts in (
                (Plugin.parse, ("", "x=", "x=:8", ":8")), (parse_one, ("", ":8")), (parse_own, ("", ":8")),
                (parse_peer, ("/a/b.so", "=/a/b.so", "x=", "x", "x=:8", "own=/a/b.so", "perftest=/a/b.so"))):
            for text in texts:
                with self.assertRaises(argparse.ArgumentTypeError):
                    parse(text)

    def test_Options_NameFilesThatExistAndPluginsOfOneNameEach(self):
        with tempfile.TemporaryDirectory() as folder:
            def parse(*words):
                parser = arguments.make_parser("a program", takes_peers=True)
                return arguments.parse(parser, "bin/driver", words=["--build", folder, *words])

            file = pathlib.Path(folder).resolve() / "a.so"
            own = ("--plugin", str(file))
            self.assertIn("there is no file", message(parse))
            self.assertIn(f"there is no file {file}; build", message(parse, *own))
            file.touch()
            self.assertIn("/bin/driver; build it by ./run build", message(parse, *own))
            (file.parent / "bin").mkdir()
            (file.parent / "bin/driver").touch()
            self.assertIn("there is no file /absent.so\n", message(parse, *own, "--peer", "b=/absent.so"))
            twice = ("--peer", f"b={file}", "--peer", f"b={file}:8")
            self.assertIn("two plugins have one name", message(parse, *own, *twice))
            # A name of the own plugin would keep its targets from being judged.
            for own in (own, ("--plugin", f"new={file}")):
                self.assertEqual([plugin.name for plugin in parse(*own, *twice[:2]).plugins], ["own", "b"])

    def test_Environment_HasNoSettingsOfNccl(self):
        with mock.patch.dict(os.environ, {"NCCL_DEBUG": "INFO", "GDR_X": "1", "LD_LIBRARY_PATH": "/c", "A": "1"}):
            env = arguments.environment("/a", "/b", SOFTHCA_CONFIG="{}")
        self.assertEqual(env["LD_LIBRARY_PATH"], "/a:/b:/c")
        self.assertFalse({"NCCL_DEBUG", "GDR_X"} & set(env))
        self.assertEqual((env["A"], env["SOFTHCA_CONFIG"]), ("1", "{}"))

    def test_NoRounds_AreRefusedByEveryProgram(self):
        for program, option in (("softhca_ratio", "--repeat"), ("connections", "--rounds"),
                                ("connections", "--polls"), ("connections", "--connections"),
                                ("instructions", "--messages"), ("rails_throughput", "--rounds"),
                                ("rails_throughput", "--gbps"), ("vm_lossy_rail", "--rounds")):
            with mock.patch("sys.argv", [program, option, "0"]):
                self.assertRegex(message(load(program).parse_options), f"argument {option}: '0' is not a ")


if __name__ == "__main__":
    unittest.main()

"""The command line."""

import contextlib
import importlib.machinery
import io
import os
import types
import unittest
from unittest import mock

from paths import ROOT

_PROGRAM = str(ROOT / "nccl-tests-config/nccl-gdr-burn-in")
_COMMAND = types.ModuleType("command")
importlib.machinery.SourceFileLoader("command", _PROGRAM).exec_module(_COMMAND)


def run(*arguments, **variables):
    """(exit status, what is written to standard error)"""
    errors = io.StringIO()
    with mock.patch("sys.argv", [_PROGRAM, *arguments]), contextlib.redirect_stderr(errors), \
            mock.patch.dict(os.environ, {"GDR_TOOL": "/bin/false", **variables}, clear=True):
        try:
            status = _COMMAND.main()
        except SystemExit as stopped:
            status = stopped.code
    return status, errors.getvalue()


class CommandTest(unittest.TestCase):

    def test_WrongOptions_ExitWith2(self):
        for arguments, variables, text in (
                ([], {}, "mode"), (["other"], {}, "mode"),
                (["local", "--expect", "PUX=90"], {}, "'PUX=90'"),
                (["local", "--root", "a"], {}, "belong to the mode remote"),
                (["remote"], {}, "remote needs --root HOST"),
                (["remote", "--root", ":4000"], {}, "remote needs --root HOST"),
                (["remote", "--root", "127.0.0.1:x"], {}, "the port x"),
                (["remote", "--root", "127.0.0.1:65536"], {}, "the port 65536"),
                (["remote", "--root", "no-such-host.invalid"], {}, "--root no-such-host.invalid"),
                (["remote", "--root", "127.0.0.1", "--rank", "2"], {}, "this is rank 2"),
                (["remote"], {"MASTER_ADDR": "127.0.0.1", "SLURM_PROCID": "3"}, "this is rank 3")):
            with self.subTest(arguments):
                status, errors = run(*arguments, **variables)
                self.assertEqual(status, 2)
                self.assertIn(text, errors)

    def test_MachineThatCannotBeRead_ExitsWith3(self):
        for tool, text in (("/bin/false", "nccl-gdr topo ended with status 1"),
                           ("/no/such/tool", "nccl-gdr topo cannot be run")):
            status, errors = run("local", GDR_TOOL=tool)
            self.assertEqual(status, 3)
            self.assertIn(text, errors)

    def test_ErrorOfTheProgram_ExitsWith3(self):
        for error in (KeyError("rails"), TypeError("none"), OSError("full")):
            with mock.patch.object(_COMMAND.rails, "read", side_effect=error):
                status, errors = run("local")
            self.assertEqual(status, 3)
            self.assertRegex(errors, rf"{type(error).__name__}.*\n.*report it with the lines above")


if __name__ == "__main__":
    unittest.main()

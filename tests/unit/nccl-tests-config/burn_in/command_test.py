"""The command line."""

import contextlib
import importlib.machinery
import io
import os
import pathlib
import subprocess
import tempfile
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

    def test_MachineWithoutARail_HasTheReasonOfTopo(self):
        with tempfile.TemporaryDirectory() as folder:
            tool = pathlib.Path(folder, "nccl-gdr")
            tool.write_text("#!/bin/sh\necho 'warning: no such port' >&2\n"
                            """echo '{"rails": [], "gpus": [], "hcas": [], "numa_nodes": []}'\nexit 3\n""",
                            encoding="ascii")
            tool.chmod(0o755)
            status, errors = run("local", GDR_TOOL=str(tool))
        self.assertEqual(status, 3)
        self.assertRegex(errors, "^warning: no such port\nnccl-gdr-burn-in: this machine has no rail. Fix: ")

    def test_MachinesWithoutARail_ExitWith3AndTheFix(self):
        options = types.SimpleNamespace(mode="remote", rank=0, root=("127.0.0.1", 1), expect={}, json=False)
        link = mock.Mock(rails=[])
        with mock.patch.object(_COMMAND.run.partner, "accept", return_value=link), \
                self.assertRaisesRegex(_COMMAND.Failure, "neither machine has a rail"):
            _COMMAND.run.run(options, _COMMAND.rails.Rails([], []), "/no/tool")
        link.send.assert_called_once_with({"exit_status": 3})

    def test_ErrorOfTheProgram_ExitsWith3(self):
        with tempfile.TemporaryDirectory() as folder:
            tool = pathlib.Path(folder, "nccl-gdr")
            tool.write_text("#!/bin/sh\necho '{}'\n", encoding="ascii")
            tool.chmod(0o755)
            done = subprocess.run([_PROGRAM, "local"], env={**os.environ, "GDR_TOOL": str(tool)}, check=False,
                                  capture_output=True, text=True)
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, r"KeyError: 'rails'\n.*report it with the lines above")

    def test_StandardErrorThatCannotBeWritten_LeavesTheExitStatus(self):
        environment = {**os.environ, "GDR_TOOL": "/bin/false"}
        compare = str(ROOT / "nccl-tests-config/compare")
        for words, status in (([_PROGRAM, "local"], 3), ([_PROGRAM, "other"], 2),
                              ([compare, "--read", "a=/no/such/file"], 2)):
            for where in ("2>/dev/full", "2>&-"):
                with self.subTest(words=words, where=where):
                    done = subprocess.run(["bash", "-c", f'exec "$@" {where}', "bash", *words], env=environment,
                                          check=False, stdout=subprocess.PIPE, text=True)
                    self.assertEqual((done.returncode, done.stdout), (status, ""))


if __name__ == "__main__":
    unittest.main()

"""The command line."""

import os
import subprocess
import unittest

from paths import ROOT

_PROGRAM = ROOT / "nccl-tests-config/nccl-gdr-burn-in"
_FAKE_TOOL = "/bin/false"


def run(*arguments, **variables):
    return subprocess.run([_PROGRAM, *arguments], text=True, capture_output=True, check=False,
                          env={"PATH": os.environ["PATH"], "GDR_TOOL": _FAKE_TOOL, **variables})


class CommandTest(unittest.TestCase):

    def test_WrongOptions_ExitWith2(self):
        for arguments, variables, text in (
                ([], {}, "mode"), (["other"], {}, "mode"),
                (["local", "--expect", "PUX=90"], {}, "'PUX=90'"),
                (["local", "--root", "a"], {}, "belong to the mode remote"),
                (["local", "--with", ""], {}, "--with"),
                (["remote"], {}, "remote needs --root HOST"),
                (["remote", "--root", ":4000"], {}, "remote needs --root HOST"),
                (["remote", "--root", "127.0.0.1:x"], {}, "the port x"),
                (["remote", "--root", "127.0.0.1:65536"], {}, "the port 65536"),
                (["remote", "--root", "127.0.0.1", "--rank", "2"], {}, "this is rank 2"),
                (["remote"], {"MASTER_ADDR": "127.0.0.1", "SLURM_PROCID": "3"}, "this is rank 3")):
            with self.subTest(arguments):
                done = run(*arguments, **variables)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(text, done.stderr)

    def test_MachineThatCannotBeRead_ExitsWith3(self):
        for tool, text in ((_FAKE_TOOL, "nccl-gdr topo ended with status 1"),
                           ("/no/such/tool", "nccl-gdr topo cannot be run")):
            done = run("local", GDR_TOOL=tool)
            self.assertEqual((done.returncode, done.stdout), (3, ""))
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main()

"""Finds the program and the environment of a run, and runs it."""

from __future__ import annotations  # for Python 3.9, whose types have no |

import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

CONFIG_DIR = pathlib.Path(__file__).resolve().parent.parent
ENV_DIR = CONFIG_DIR / "env"
# Open MPI must not use the devices under test, or the software HCA, for its own traffic.
_OVER_TCP = ["--mca", "pml", "ob1", "--mca", "btl", "self,tcp"]
_FORWARDED = re.compile("(NCCL|GDR_NCCL|SOFTHCA)_.*|MASTER_(ADDR|PORT)|GDR_(TOOL|RANKS_PER_NODE)|CUDA_VISIBLE_DEVICES|"
                        "LD_LIBRARY_PATH")
_OF_NCCL_TESTS = ("_perf", "_perf_mpi")  # how names of its programs end


class LaunchError(Exception):
    """The run cannot be started; the text says what to fix."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    exit_code: int | None  # None when the time ran out
    stdout: str
    stderr: str
    seconds: float


def environment(env_files, settings, base=None, checks_softhca=True):
    """`base` (this process's environment) after sourcing `env_files` and adding `settings`.

    An environment file is a path, or a name in env/.

    Bash does the sourcing, so that a run has exactly the environment that a user gets by hand.
    """
    base = dict(os.environ if base is None else base)
    if not base.get("SOFTHCA_DIR"):
        base.pop("SOFTHCA_DIR", None)
    # Without "|| exit", which would switch -e off inside of the file.
    script = 'set -a; for file in "$@"; do source "$file"; done; exec env -0'
    files = [name if "/" in name else str(ENV_DIR / f"{name}.env") for name in env_files]
    done = subprocess.run(["bash", "-eu", "-c", script, "bash", *files], env=base,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    printed = done.stderr.decode(errors="replace")
    if done.returncode != 0:
        raise LaunchError(
            f"bash could not source {' '.join(files)}: {printed.strip() or 'it gives no reason'}")
    result = dict(entry.split("=", 1) for entry in done.stdout.decode().split("\0") if entry)
    if checks_softhca:
        _check_softhca(result)
    sys.stderr.write(printed)
    result.update(settings)
    result.pop("file", None)  # of the loop
    return result


def _check_softhca(env):
    """Raises LaunchError where the software HCA is asked for, and the loader would take the system's libibverbs."""
    folder = env.get("SOFTHCA_DIR")
    asked = folder == "" or folder in env.get("LD_LIBRARY_PATH", "").split(":")
    if folder is not None and asked and not (folder and os.path.exists(os.path.join(folder, "libibverbs.so.1"))):
        where = f"there is no libibverbs.so.1 of the software HCA in {folder}" if folder else (
            "there is no software HCA on this machine")
        raise LaunchError(
            f"{where}: build it (./run build), install the package nccl-net-gdr-softhca, or "
            "set SOFTHCA_DIR to the folder of its libibverbs.so.1")


def find_program(name, base=None, folders=()):
    """The path of a program: as given, in NCCL_TESTS_DIR, its build/, `folders`, or PATH. Where NCCL_TESTS_DIR is set, PATH
    is not searched for programs of nccl-tests, since it may have those of another build."""
    base = os.environ if base is None else base
    own = base.get("NCCL_TESTS_DIR")
    folders = [*([own, os.path.join(own, "build")] if own else []), *map(str, folders)]
    searched = list(map(os.path.abspath, folders))
    is_test = name.endswith(_OF_NCCL_TESTS)
    if not (own and is_test):
        searched.append(base.get("PATH", ""))
        folders.append("PATH" if own or not is_test else "PATH (NCCL_TESTS_DIR is not set)")
    if found := shutil.which(name, path=":".join(searched)):
        return os.path.abspath(found)
    raise LaunchError(f"{name} was not found in {', '.join(folders)}. " + (
        "To get it: git clone https://github.com/NVIDIA/nccl-tests; make -C nccl-tests (with MPI=1 for several processes; "
        "CUDA_HOME and NCCL_HOME where they are in no usual place); export NCCL_TESTS_DIR=$PWD/nccl-tests. Without GPUs here, "
        "compare --read compares outputs of another machine" if is_test else "Fix: give its path, or add its folder to PATH"))


def decides_runs(name):
    """Whether a variable of this name decides what a run does, so that ranks on other hosts need it, too."""
    return _FORWARDED.fullmatch(name) is not None and name != "NCCL_TESTS_DIR"


def mpirun_words(mpirun, ranks, more, env):
    """Open MPI's command without the program; `more` are its options for hosts and the like."""
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    forwarded = [word for name in sorted(filter(decides_runs, env)) for word in ("-x", name)]
    return [mpirun, "-np", str(ranks), "--bind-to", "none", *_OVER_TCP, *root, *more, *forwarded]


def command(program, arguments, options, env):
    """The command line of one run, as a list; `options` are those of compare."""
    if options.mode == "threads":
        return [program, *arguments, "-g", str(options.ranks)]
    mpirun = shutil.which("mpirun", path=env.get("PATH"))
    if mpirun is None:
        raise LaunchError("mpirun (Open MPI) was not found, and --mode processes needs it")
    hosts = ["--hostfile", options.hostfile] if options.hostfile else ["--host", f"localhost:{options.ranks}"]
    alone = [str(CONFIG_DIR / "one_host_rank")] if options.one_host else []
    return [*mpirun_words(mpirun, options.ranks, hosts, env), *alone, program, *arguments, "-g", "1"]


def _kill(process):
    """Ends a program and its children. mpirun ends its ranks, also on other hosts, where it gets the time to."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(3)
    except (subprocess.TimeoutExpired, ProcessLookupError):
        pass
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it ended, and left nobody behind


def run(words, env, timeout_s):
    """Runs one program. Both streams are pipes, as NCCL opens its log, /dev/stderr, a second time."""
    start = time.monotonic()
    with subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace",
                          start_new_session=True) as process:
        # An interrupt from here on has to end the program: the end of `with` waits for it.
        try:
            texts = process.communicate(timeout=timeout_s)
            exit_code = process.returncode
        except subprocess.TimeoutExpired:
            _kill(process)
            texts, exit_code = process.communicate(), None
        except BaseException:
            _kill(process)
            raise
    return Outcome(exit_code, *texts, time.monotonic() - start)

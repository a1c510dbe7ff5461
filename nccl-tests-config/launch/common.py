"""What the launchers share: options, settings, and showing what is run."""

import argparse
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

LAUNCH_DIR = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(LAUNCH_DIR.parent))
from comparelib import launch, preset, transports  # pylint: disable=wrong-import-position
from comparelib.launch import LaunchError  # pylint: disable=wrong-import-position

_PLUGIN = "libnccl-net-gdr.so"
_DEFAULT_ARGUMENTS = ["-b", "8", "-e", "8G", "-f", "2", "-g", "1"]
_EPILOG = """-- ARGUMENTS are those of the program.

exit status: that of the program; 2 an option cannot be used; 3 something is
missing, or stdout cannot be written"""
_WITHOUT_MPI = ("perf_rank", "nccl-gdr-burn-in")  # rank 0 listens at MASTER_ADDR


def number(text):
    if not re.fullmatch("[1-9][0-9]{0,4}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 99999")
    return int(text)


def setting(text):
    if not re.match("[A-Za-z_][A-Za-z0-9_]*=", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return text.split("=", 1)


def run(name, description, program, add_options, main):
    """Parses the arguments and calls main(options, parser); its LaunchError ends the launcher with status 3.

    `program` is the default of --program; add_options(add) adds what the launcher has beside the common options.
    """
    parser = argparse.ArgumentParser(
        prog=f"launch/{name}", description=description, allow_abbrev=False,
        usage=f"launch/{name} --gpus N [OPTION...] [-- ARGUMENTS]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EPILOG)
    add_options(parser.add_argument)
    add = parser.add_argument
    add("--nodes", type=number, default=1, metavar="N", help="nodes of the job (default: 1)")
    add("--gpus", type=number, required=True, metavar="N", help="GPUs, and so ranks, of each node")
    add("--program", default=program, help="what each rank runs: a name or a path (default: %(default)s)")
    add("--preset", choices=preset.names(), metavar="NAME", help="settings for a kind of machine: presets/NAME.env")
    add("--transport", choices=list(transports.known()), default="gdr", metavar="NAME",
        help="env/NAME.env: gdr is the plugin, ib NCCL's built-in transport (default: gdr)")
    add("--plugin-dir", type=os.path.abspath, metavar="DIR",
        help=f"folder of {_PLUGIN} (default: build/lib of this checkout, else the installed one)")
    add("--set", type=setting, action="append", default=[], metavar="NAME=VALUE",
        help="one more environment variable; it overrides the preset's")
    add("--dry-run", action="store_true", help="print the command and end")
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:split])
    options.arguments = words[split + 1:]
    if not options.arguments and re.search("_perf(_mpi)?$", options.program):
        options.arguments = _DEFAULT_ARGUMENTS
    try:
        main(options, parser)
    except LaunchError as error:
        parser.exit(3, f"launch/{name}: {error}\n")


def settings(options):
    """This environment with the settings of the transport, the preset and --set, in this order."""
    base = dict(os.environ)
    if options.plugin_dir:
        base["GDR_PLUGIN_DIR"] = options.plugin_dir
    files = [options.transport]
    if options.preset:
        files.append(str(preset.PRESET_DIR / f"{options.preset}.env"))
    return launch.environment(files, dict(options.set), base, checks_softhca=not options.dry_run)


def plugin_file(env):
    """The plugin that the loader finds: in the folders of LD_LIBRARY_PATH, which has GDR_PLUGIN_DIR, or in its cache;
    else None. ldconfig is not in every user's PATH."""
    for folder in env.get("LD_LIBRARY_PATH", "").split(":"):
        if folder and os.path.exists(os.path.join(folder, _PLUGIN)):
            return os.path.join(folder, _PLUGIN)
    ldconfig = shutil.which("ldconfig", path=f"{env['PATH']}:/usr/sbin:/sbin")
    cache = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False).stdout if ldconfig else ""
    found = re.search(rf"^\s*{re.escape(_PLUGIN)} .*=> (.*)$", cache, re.MULTILINE)
    return found[1] if found else None


def find_plugin(options, env, other_fix=""):
    """Its file, or None where the transport needs none. Raises LaunchError where it is missing."""
    if env.get("NCCL_NET_PLUGIN") != "gdr":
        return None
    own = os.path.join(env["GDR_PLUGIN_DIR"], _PLUGIN)
    found = own if options.plugin_dir or os.path.exists(own) else plugin_file(env)
    if not found or not os.path.exists(found):
        raise LaunchError(f"there is no {_PLUGIN} in {env['GDR_PLUGIN_DIR']}. Fix: build it (./run build), install the "
                          f"package, or name its folder by --plugin-dir{other_fix}")
    return found


def other_command(name, fix):
    """The path of a command of this name that is not one of the launchers; `fix` says how to get it."""
    for folder in os.environ["PATH"].split(":"):
        path = shutil.which(name, path=folder)
        if path and pathlib.Path(path).resolve().parent != LAUNCH_DIR:
            return path
    raise LaunchError(f"{name} was not found. Fix: {fix}")


def find_program(options):
    """The path of the program: as given, among nccl-tests' (NCCL_TESTS_DIR), beside the launchers, or in PATH."""
    return launch.find_program(options.program, folders=(LAUNCH_DIR, LAUNCH_DIR.parent))


def hosts_of_slurm():
    """The nodes of the Slurm job around this; none outside of a job."""
    nodes = os.environ.get("SLURM_JOB_NODELIST")
    if nodes is None:
        return []
    try:
        return subprocess.check_output(["scontrol", "show", "hostnames", nodes], stderr=subprocess.PIPE, text=True).split()
    except (OSError, subprocess.CalledProcessError) as error:
        text = getattr(error, "stderr", "").strip() or error
        raise LaunchError(f"scontrol does not name the nodes of the job, {nodes}: {text}") from error


def meet(options, hosts, env):
    """Sets where the ranks of a program without MPI meet: at the first of what hosts() returns."""
    if options.program.endswith(_WITHOUT_MPI):
        env["MASTER_ADDR"] = (hosts() or [""])[0].replace("localhost", "127.0.0.1")
        env.setdefault("MASTER_PORT", "29500")


def forwarded(env):
    """The names of the variables that ranks on other nodes need."""
    return sorted(filter(launch.decides_runs, env))


def become(words, options, env):
    """Shows the command, so that it can be pasted into a shell, and becomes it; with --dry-run it only shows it."""
    words = [*words, options.program, *options.arguments]
    line = " ".join(["env", *(f"{name}={shlex.quote(env[name])}" for name in forwarded(env)), shlex.join(words)])
    print(line, file=sys.stdout if options.dry_run else sys.stderr, flush=True)
    if not options.dry_run:
        os.execvpe(words[0], words, env)

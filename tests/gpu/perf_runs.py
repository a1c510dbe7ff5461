"""What the scripts of this folder share: runs of nccl-tests over the plugin and the software HCA."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "nccl-tests-config"))
from comparelib import perf_json, rounds  # pylint: disable=wrong-import-position,unused-import


def add_folders(add, output):
    """The options of what runs, and of the folder for its logs."""
    add("--plugin", type=pathlib.Path, default=ROOT / "build" / "lib")
    add("--softhca", type=pathlib.Path, default=ROOT / "build" / "softhca")
    add("--output", type=pathlib.Path, default=pathlib.Path(output))


def environment(options, log, nccl=None, **settings):
    """Ranks use the network only, as nodes of their own, and log to files whose names begin with that of `log`. `nccl`
    is a folder with a libnccl.so.2, instead of the installed one. A setting of None is left out."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("NCCL_", "GDR_NCCL_", "SOFTHCA_"))}
    libraries = [nccl, options.softhca, options.plugin, kept.get("LD_LIBRARY_PATH")]
    made = {**kept, "LD_LIBRARY_PATH": ":".join(str(one) for one in libraries if one),
            "NCCL_NET_PLUGIN": "gdr", "NCCL_NET": "GDR", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1",
            "NCCL_NVLS_ENABLE": "0", "NCCL_NET_GDR_LEVEL": "SYS", "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_SUBSYS": "INIT,NET", "NCCL_DEBUG_FILE": f"{log}.%p", **settings}
    return {name: value for name, value in made.items() if value is not None}


def two_ranks(program, *arguments, script='exec "$@"'):
    """The command for two processes, each of which bash starts by the script."""
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", "bash", "-c", script, "rank",
            str(ROOT / "nccl-tests-config" / "one_host_rank"), str(program), *arguments, "-g", "1"]


def run(command, env, log, limit_s):
    """The exit status, None where the time ran out, and the results."""
    results = log.with_suffix(".json").resolve()
    results.unlink(missing_ok=True)  # nccl-tests keeps a file that exists
    with log.open("w") as output:
        try:
            code = subprocess.run([*command, "-J", str(results)], env=env, stdout=output, stderr=subprocess.STDOUT,
                                  timeout=limit_s, check=False).returncode
        except subprocess.TimeoutExpired:
            code = None
    return code, perf_json.load(results)


def log_text(log):
    """What all ranks logged."""
    return "".join(file.read_text(errors="replace") for file in sorted(log.parent.glob(f"{log.name}.*")))


def problems_of(code, table, limit_s):
    """Sentences about a run that has to succeed with right results."""
    problems = [f"not finished within {limit_s} s" if code is None else f"exit status {code}"] if code != 0 else []
    wrong = [row.size for row in table.rows if row.wrong() != 0]
    if not table.rows or wrong or table.out_of_bounds != 0:
        problems.append(f"rows {len(table.rows)}, wrong at sizes {wrong}, out of bounds {table.out_of_bounds}")
    return problems


def gpu_addresses():
    """The PCI addresses of NVIDIA's GPUs."""
    devices = sorted(pathlib.Path("/sys/bus/pci/devices").glob("*"))
    return [device.name for device in devices if (device / "vendor").read_text().strip() == "0x10de" and
            (device / "class").read_text().startswith("0x03")]

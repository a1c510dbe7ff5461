"""perftest (github.com/linux-rdma/perftest): which programs are installed, their arguments, and
what they print. They use verbs alone, so that they show what port, PCIe link and fabric can do."""

import dataclasses
import math
import os
import pathlib
import re
import shutil
import subprocess
import typing

from burn_in.failure import Failure, printable

NAME = "perftest"
LIMIT_S = 60
PORT_IS_TAKEN = "Couldn't listen to port"
_PROGRAMS = {"bandwidth": "ib_write_bw", "latency": "ib_write_lat"}
_BYTES = {"bandwidth": 4 << 20, "latency": 8}
_COLUMNS = {"bandwidth": "BW average[", "latency": "t_typical["}
# Of the duration, the first and the last quarter do not count (perftest's --margin).
_LENGTHS = {"bandwidth": ["--duration=4", "--report_gbits"], "latency": ["--iters=1000"]}
_OPTIONS_BY_VARIABLE = {"NCCL_IB_GID_INDEX": "--gid-index", "NCCL_IB_SL": "--sl",
                        "NCCL_IB_TC": "--tclass", "NCCL_IB_PKEY": "--pkey_index"}


@dataclasses.dataclass
class Tools:
    """What can measure on a machine. Both machines of a run exchange it as JSON."""
    nccl_gdr: str  # path
    version: str = ""  # of perftest
    lacks: str = ""  # why perftest cannot measure
    cuda_options: typing.List[str] = dataclasses.field(default_factory=list)  # how it was built

    def measures_gpus(self):
        return bool({"--use_cuda", "--use_cuda_bus_id"} & set(self.cuda_options))


def find(nccl_gdr):
    """The Tools of this machine."""
    for program in _PROGRAMS.values():
        if shutil.which(program) is None:
            return Tools(nccl_gdr, lacks=f"{program} is not in PATH")
    version, usage = [subprocess.run([_PROGRAMS["bandwidth"], option], text=True, check=False,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                      for option in ("--version", "--help")]
    # The loader's status where a library is missing; that of --help differs between releases.
    if version.returncode == 127:
        return Tools(nccl_gdr, lacks=printable(version.stdout))
    number = re.search(r"Version:\s*([\d.]+)", version.stdout)
    return Tools(nccl_gdr, number[1] if number else "of unknown version",
                 cuda_options=re.findall(r"--use_cuda\w*", usage.stdout))


def words(job, role, tools):
    """The command of the end that listens ("server", which receives) or connects ("client")."""
    end = job.server if role == "server" else job.client
    # -F: no error where the CPU's frequency is not the nominal one.
    command = [_PROGRAMS[job.kind], "-F", f"--ib-dev={end.hca}", f"--ib-port={end.port}",
               f"--port={job.port}", f"--size={_BYTES[job.kind]}", *_LENGTHS[job.kind]]
    for variable, option in _OPTIONS_BY_VARIABLE.items():
        value_of_user = os.environ.get(variable, "")
        if value_of_user.isdecimal():
            command.append(f"{option}={value_of_user}")
    if end.gpu is not None:
        command += _gpu_options(end, tools)
    return command + ([job.address] if role == "client" else [])


def _gpu_options(end, tools):
    # A PCI address is not renumbered by CUDA_VISIBLE_DEVICES.
    if "--use_cuda_bus_id" in tools.cuda_options:
        options = [f"--use_cuda_bus_id={end.gpu_address}"]
    else:
        options = [f"--use_cuda={end.cuda}"]
    # Without nvidia-peermem only dma-buf registers memory of a GPU.
    has_peermem = pathlib.Path("/sys/module/nvidia_peermem").exists()
    if "--use_cuda_dmabuf" in tools.cuda_options and not has_peermem:
        options.append("--use_cuda_dmabuf")
    return options


def variables(_kind):
    return {}


def value(job, server, client):
    """Gb/s or microseconds, as the end that connects prints them. Raises Failure."""
    program, size = _PROGRAMS[job.kind], _BYTES[job.kind]
    if client is None or client.status != 0:
        raise _failure(program, [client, server] if client else [server])
    number, column = _cell(client.output, size, _COLUMNS[job.kind])
    if number is None:
        raise Failure(f"{program} printed no result for messages of {size} bytes",
                      "use --with perf")
    # perftest divides by the CPU frequency that it measures, and finds none on a busy CPU.
    if not math.isfinite(number) or number <= 0:
        raise Failure(f"{program} printed the result {number}",
                      "run it again while the CPUs are idle, or use --with perf")
    # "MB/sec", and "MiB/sec" of later releases, are both 2^20 bytes.
    return number * 8 * 2**20 / 1e9 if "[MB/" in column or "[MiB/" in column else number


def _cell(output, size, name):
    """(number, column) of the row of that size in the column whose name begins so. Warnings may
    stand before the table, and between its header and its row."""
    columns = []
    for line in output.splitlines():
        cells = line.split()
        if cells and cells[0] == "#bytes":
            # A name may have blanks before its unit: "99.9% percentile[usec]".
            columns = re.findall(r"#\w+|\S[^\[\]]*\[[^\]]*\]", line)
        found = [i for i, column in enumerate(columns) if column.startswith(name)]
        if not found or not cells or cells[0] != str(size) or found[0] >= len(cells):
            continue
        try:
            return float(cells[found[0]]), columns[found[0]]
        except ValueError:
            continue
    return None, ""


_VERBS = "nccl-gdr doctor --check rdma-devices,verbs-library,device-files"
_REGISTRATION = "nccl-gdr doctor --check memory-lock,memory-registration"
_ROUTE = ("let each port reach the GID or LID of the other one: nccl-gdr doctor --check "
          "roce-gids,ip-subnets,subnet-manager on every machine that took part")
_CUDA = "nccl-gdr doctor --check nvidia-driver,cuda-driver"
_RELEASE = "install perftest 4.5 or later, the same release on both machines, or use --with perf"
# What is printed, the fix, and whether the rail is at fault. The first one that is found counts:
# what causes other errors comes first.
_SIGNS = [
    (r"Couldn't connect to", "let TCP through the firewall between the machines", False),
    (r"state is", "nccl-gdr doctor --check port-state", False),
    (r"IB device |Unable to find the Inf|Couldn't get context", _VERBS, False),
    (r"cuInit|GPU context", _CUDA, False),
    (r"DMA-BUF is not|Couldn't allocate MR|Couldn't create IB resources", _REGISTRATION, False),
    (r"Incompatibility issue with GID|Failed to modify QP|Unable to Connect the HCA", _ROUTE, True),
    # IBV_WC_RETRY_EXC_ERR and IBV_WC_RNR_RETRY_EXC_ERR
    (r"Failed status 12",
     "the receiving port did not acknowledge: look at cables, MTU and routes by nccl-gdr doctor on "
     "every machine that took part; where the InfiniBand fabric asks for GRHs, set "
     "NCCL_IB_GID_INDEX=0", True),
    (r"Completion with error",
     "run nccl-gdr conformance, and nccl-gdr doctor on every machine that took part", True),
    (r"not compatible with versions|nrecognized option|nvalid option", _RELEASE, False),
    (r"", "use --with perf, and see whether it fails, too", False),
]
_HARMLESS = ("----", "Conflicting CPU frequency", "Warning", "WARNING", "Requested mtu",
             "Changing to this MTU", "scnt=", "rcnt=")
# What an end prints because the other one has left.
_CONSEQUENCES = ("ethernet_read_keys", "Couldn't read remote address", "Unable to read",
                 "Unable to write", "Failed to exchange", "Failed to close connection")
_MOST_LINES = 4


def _failure(program, ends):
    """What the outcomes of the ends mean; the first one is what has failed."""
    # Errors of CUDA are in the standard output.
    causes = _causes("\n".join(end.errors for end in ends)) or _causes(
        "\n".join(end.output for end in ends)[-400:])
    printed = "\n".join(end.errors + end.output for end in ends)
    fix, is_transfer = next(rest for sign, *rest in _SIGNS if re.search(sign, printed))
    what = f"{program} {ends[0].how()}: {causes or 'it printed no error'}"
    return Failure(what, fix, is_transfer)


def _causes(text):
    """The first lines, joined; consequences only where there is nothing else."""
    lines = [line.strip(" \t\r*") for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(_HARMLESS)]
    causes = [line for line in lines if not line.startswith(_CONSEQUENCES)]
    both_ends = dict.fromkeys(causes or lines)
    return printable("; ".join(list(both_ends)[:_MOST_LINES]))

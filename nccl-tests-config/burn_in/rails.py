"""The rails of this machine, as `nccl-gdr topo --json` shows them, and how to measure them."""

import ctypes
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import typing

HOST = "HOST"  # the path class of host memory
_TOPO_LIMIT_S = 60


class Failure(Exception):
    """An error of the burn-in: what happened, and what to try. `is_transfer`: data was lost or wrong,
    so that a rail is at fault and not the measurement. `ends`: nothing more can be measured, as
    where the other machine has left."""

    def __init__(self, text, fix="", is_transfer=False, ends=False):
        super().__init__(text)
        self.text, self.fix = text, fix
        self.is_transfer, self.ends = is_transfer, ends


def printable(text):
    """The text in one line and without control characters, which programs may print."""
    return re.sub(r"[\x00-\x1f\x7f]+", " ", text).strip()


@dataclasses.dataclass
class End:
    """A port, and the memory that its data is in. Both machines of a run exchange it as JSON."""
    rail: int
    hca: str
    port: int
    device: int  # the plugin's number: unusable rails have none
    gbits: float = 0  # the link's rate; 0: unknown
    model: str = ""  # PCI vendor and device: rails of one model should be alike
    fabric: str = ""  # ports of different ones do not reach each other
    is_virtual: bool = False  # without hardware: Soft-RoCE, the software HCA
    pcie: str = ""  # what is wrong with its PCIe link
    cpus: typing.List[int] = dataclasses.field(default_factory=list)  # of its NUMA node
    gpu: typing.Optional[int] = None  # whose memory; None: that of the host
    gpu_address: str = ""
    cuda: typing.Optional[int] = None  # CUDA's number for the GPU; None: not visible here
    path: str = HOST  # class of the path between memory and port

    def name(self):
        return f"rail {self.rail} {self.hca}:{self.port}"

    def memory(self):
        return "host memory" if self.gpu is None else f"GPU{self.gpu} ({self.path})"


@dataclasses.dataclass
class Rail:
    host: End
    gpus: typing.List[End]  # of the GPUs whose nearest rail it is


@dataclasses.dataclass
class Rails:
    usable: typing.List[Rail]
    down: typing.List[typing.Tuple[str, str]]  # name and reason


def read(tool, sysfs=pathlib.Path("/sys")):
    """The machine's rails. Raises Failure where the tool cannot show them."""
    try:
        done = subprocess.run([tool, "topo", "--json"], capture_output=True, text=True, check=False,
                              timeout=_TOPO_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(f"nccl-gdr topo cannot be run: {error}",
                      "install nccl-gdr, or set GDR_TOOL to its path")
    if done.returncode != 0 and not done.stdout.startswith("{"):  # 3 where it shows nothing
        errors = printable(done.stderr)
        raise Failure(f"nccl-gdr topo ended with status {done.returncode}: {errors}",
                      "nccl-gdr doctor says what this machine lacks")
    sys.stderr.write(done.stderr)  # why rails are missing, such as a name in NCCL_IB_HCA that no port has
    return from_topology(json.loads(done.stdout), cuda_numbers(), sysfs)


def from_topology(machine, cuda, sysfs):
    """`cuda`: CUDA's numbers of the GPUs, by PCI address."""
    rails = Rails([], [])
    for rail in machine["rails"]:
        if not rail["usable"]:
            rails.down.append((f"rail {rail['rail']} {rail['port']}",
                               rail["why_not"] or "it is not usable"))
            continue
        end = _port_of_rail(machine, rail, sysfs)
        end.device = len(rails.usable)
        gpus = [_with_gpu(machine, end, gpu, cuda) for gpu in machine["gpus"]
                if gpu["rails"] and gpu["rails"][0]["rail"] == rail["rail"]]
        rails.usable.append(Rail(end, gpus))
    return rails


def _port_of_rail(machine, rail, sysfs):
    hca = machine["hcas"][rail["hca"]]
    number = int(rail["port"].rpartition(":")[2])
    port = next(one for one in hca["ports"] if one["number"] == number)
    nodes = {node["id"]: node["cpus"] for node in machine["numa_nodes"]}
    return End(rail=rail["rail"], hca=hca["name"], port=number, device=0,
               gbits=(port["speed_mbps"] or 0) / 1000, model=f"{hca['vendor']} {hca['device']}",
               fabric=_fabric(sysfs, hca["name"], port),
               # A device of software has no parent on a bus.
               is_virtual=not (sysfs / "class/infiniband" / hca["name"] / "device").exists(),
               pcie=pcie_fault(sysfs, hca["address"]),
               cpus=numbers_in(nodes.get(hca["numa_node"]) or ""))


def _with_gpu(machine, end, gpu, cuda):
    return dataclasses.replace(end, gpu=gpu["index"], gpu_address=gpu["address"],
                               cuda=cuda.get(gpu["address"]), path=gpu["rails"][0]["path"])


def _fabric(sysfs, hca, port):
    """On InfiniBand with the subnet, which is the upper half of the port's first GID."""
    gid = _line(sysfs / f"class/infiniband/{hca}/ports/{port['number']}/gids/0")
    subnet = gid[:19] if port["link_layer"] == "InfiniBand" else ""
    return " ".join(filter(None, [port["link_layer"], subnet]))


def pcie_fault(sysfs, address):
    """How a device's PCIe link is slower or narrower than the device supports; "": it is not."""
    folder = sysfs / f"bus/pci/devices/{address}"
    faults = []
    for what in ("speed", "width"):
        now, most = (_line(folder / f"{when}_link_{what}") for when in ("current", "max"))
        if now and most and _first_number(now) < _first_number(most):
            faults.append(f"{what} {now} of {most}")
    return ", ".join(faults)


def _first_number(text):
    try:
        return float(text.split()[0])
    except ValueError:
        return 0.0  # "Unknown"


def _line(path):
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def numbers_in(ranges):
    """[0, 1, 2, 8] of "0-2,8"."""
    parts = re.findall(r"(\d+)-?(\d*)", ranges)
    return [one for first, last in parts for one in range(int(first), int(last or first) + 1)]


def cuda_numbers():
    """{PCI address: number} of the GPUs that CUDA shows to this process, and to those it starts."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {}
    count, device = ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return {}
    found = {}
    for number in range(count.value):
        text = ctypes.create_string_buffer(32)
        cuda.cuDeviceGet(ctypes.byref(device), number)
        if cuda.cuDeviceGetPCIBusId(text, len(text), device) == 0:
            found[text.value.decode("ascii").lower()] = number
    return found

#!/usr/bin/env python3
"""Writes the hwloc-*.xml files of this folder: machines of known shapes with made-up devices.

Run it here, with no arguments: `./make_hwloc_xml.py`. The files are committed, so that tests need no
Python; run it again after a change and commit both. `lstopo -i hwloc-dgx-h100.xml` draws one.
"""

import pathlib
import xml.etree.ElementTree as ET

HCA = "15b3:1021"
FOLDER = pathlib.Path(__file__).resolve().parent
CPUS_PER_PACKAGE = 8


class Machine:
    """Packages with one NUMA node each, and PCI trees below them."""

    def __init__(self, arch, cpu, nodes):
        self.last_index = 0
        self.vendor_infos = cpu
        everything = {"cpuset": mask(range(CPUS_PER_PACKAGE * len(nodes))), "nodeset": mask(nodes)}
        sets = dict(everything)
        for name, value in everything.items():
            sets["complete_" + name] = sets["allowed_" + name] = value
        self.top = ET.Element("topology", version="2.0")
        self.root = self.add(self.top, "Machine", os_index="0", **sets)
        info(self.root, "Architecture", arch)
        info(self.root, "Backend", "Linux")
        self.packages = [self.add_package(i, node) for i, node in enumerate(nodes)]
        self.nvml = {}
        self.nvswitches = []
        self.hcas = 0

    def add(self, parent, kind, **attributes):
        self.last_index += 1
        index = str(self.last_index)
        return ET.SubElement(parent, "object", {"type": kind, **attributes, "gp_index": index})

    def add_package(self, number, node):
        cpus = range(number * CPUS_PER_PACKAGE, (number + 1) * CPUS_PER_PACKAGE)
        package = self.add(self.root, "Package", os_index=str(number), **sets_of(cpus, node))
        for name, value in self.vendor_infos.items():
            info(package, name, value)
        self.add(package, "NUMANode", os_index=str(node), **sets_of(cpus, node),
                 local_memory=str(2**37))
        for cpu in cpus:
            core = self.add(package, "Core", os_index=str(cpu), **sets_of([cpu], node))
            self.add(core, "PU", os_index=str(cpu), **sets_of([cpu], node))
        return package

    def host_bridge(self, package, first, last, domain=0):
        return self.add(self.packages[package], "Bridge", bridge_type="0-1", depth="0",
                        bridge_pci=f"{domain:04x}:[{first:02x}-{last:02x}]")

    def bridge(self, parent, busid, first, last, ids="1000:c030"):
        domain = busid.split(":")[0]
        depth = str(int(parent.get("depth")) + 1)
        return self.add(parent, "Bridge", bridge_type="1-1", depth=depth,
                        bridge_pci=f"{domain}:[{first:02x}-{last:02x}]",
                        **function(busid, "0604", ids))

    def gpu(self, parent, busid, model, ids="10de:2330", nvml=True):
        gpu = self.add(parent, "PCIDev", **function(busid, "0302", ids))
        if nvml:
            device = self.add(gpu, "OSDev", name=f"nvml{len(self.nvml)}", osdev_type="1")
            info(device, "GPUModel", model)
            self.nvml[busid] = device
        else:
            info(gpu, "PCIDevice", model)
        return gpu

    def hca(self, parent, busid, ports=1, down=(), ids=HCA):
        """Devices are numbered as they are made. Functions of one card have one system image."""
        card = self.add(parent, "PCIDev", **function(busid, "0207", ids))
        domain, bus, slot = busid[:-2].split(":")
        device = self.add(card, "OSDev", name=f"mlx5_{self.hcas}", osdev_type="3")
        info(device, "NodeGUID", f"0200:{domain}:{slot}{busid[-1]}0:{bus}00")
        info(device, "SysImageGUID", f"0200:{domain}:{slot}00:{bus}00")
        for port in range(1, ports + 1):
            info(device, f"Port{port}State", "1" if port in down else "4")
        self.hcas += 1

    def nvswitch(self, parent, busid):
        self.nvswitches.append(self.add(parent, "PCIDev", **function(busid, "0680", "10de:22a3")))

    def write(self, name):
        if self.nvswitches:
            self.write_nvlinks()
        ET.indent(self.top)
        text = ET.tostring(self.top, encoding="unicode")
        header = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n'
        (FOLDER / name).write_text(f"{header}{text}\n", encoding="utf-8")

    def write_nvlinks(self):
        """The matrix as hwloc's NVML component has it: every GPU with every NVSwitch."""
        gpus, switches = list(self.nvml.values()), self.nvswitches
        names = [f"OSDev:{gpu.get('gp_index')}" for gpu in gpus]
        names += [f"PCIDev:{switch.get('gp_index')}" for switch in switches]
        kind = {"nbobjs": str(len(names)), "kind": "25", "name": "NVLinkBandwidth"}
        matrix = ET.SubElement(self.top, "distances2hetero", kind)
        text = "".join(name + " " for name in names)
        ET.SubElement(matrix, "indexes", length=str(len(text))).text = text
        for row in range(len(names)):
            linked = ["100000" if (row < len(gpus)) != (column < len(gpus)) else "0"
                      for column in range(len(names))]
            text = "".join(value + " " for value in linked)
            ET.SubElement(matrix, "u64values", length=str(len(text))).text = text


def mask(bits):
    value = sum(1 << bit for bit in bits)
    groups = []
    while value or not groups:
        groups.append(f"0x{value & 0xffffffff:08x}")
        value >>= 32
    return ",".join(reversed(groups))


def sets_of(cpus, node):
    return {"cpuset": mask(cpus), "complete_cpuset": mask(cpus),
            "nodeset": mask([node]), "complete_nodeset": mask([node])}


def function(busid, class_code, ids):
    return {"pci_busid": busid, "pci_type": f"{class_code} [{ids}] [{ids}] 00",
            "pci_link_speed": "63.015385"}


def info(parent, name, value):
    ET.SubElement(parent, "info", name=name, value=value)


INTEL = {"CPUVendor": "GenuineIntel", "CPUFamilyNumber": "6", "CPUModelNumber": "143"}


def dgx_h100():
    """8 GPUs, each on a switch with its NIC; 2 dual-port storage cards."""
    machine = Machine("x86_64", INTEL, [0, 1])
    devices = machine.host_bridge(0, 0x00, 0x0a)
    for i in range(4):
        port = machine.bridge(devices, f"0000:00:1c.{i}", 7 + i, 7 + i, "8086:1bb0")
        machine.nvswitch(port, f"0000:{7 + i:02x}:00.0")

    def rail(package, root, nic, gpu):
        """Root port, one switch, the NIC and the GPU on two of its ports."""
        top = machine.host_bridge(package, root, gpu)
        port = machine.bridge(top, f"0000:{root:02x}:01.0", root + 1, gpu, "8086:352a")
        up = machine.bridge(port, f"0000:{root + 1:02x}:00.0", root + 2, gpu)
        down = machine.bridge(up, f"0000:{root + 2:02x}:00.0", nic, nic)
        machine.hca(down, f"0000:{nic:02x}:00.0")
        down = machine.bridge(up, f"0000:{root + 2:02x}:01.0", gpu, gpu)
        machine.gpu(down, f"0000:{gpu:02x}:00.0", "NVIDIA H100 80GB HBM3")

    def storage(package, root, nic):
        top = machine.host_bridge(package, root, nic)
        port = machine.bridge(top, f"0000:{root:02x}:03.0", nic, nic, "8086:352a")
        machine.hca(port, f"0000:{nic:02x}:00.0")
        machine.hca(port, f"0000:{nic:02x}:00.1", down=(1,))

    rail(0, 0x15, 0x18, 0x1b)
    storage(0, 0x26, 0x29)
    rail(0, 0x3d, 0x40, 0x43)
    rail(0, 0x4c, 0x4f, 0x52)
    rail(0, 0x5b, 0x5e, 0x61)
    rail(1, 0x97, 0x9a, 0x9d)
    storage(1, 0xa7, 0xaa)
    rail(1, 0xbd, 0xc0, 0xc3)
    rail(1, 0xcb, 0xce, 0xd1)
    rail(1, 0xd9, 0xdc, 0xdf)
    machine.write("hwloc-dgx-h100.xml")


def two_socket_plain():
    """A GPU and a NIC per socket, on root ports."""
    machine = Machine("x86_64", INTEL, [0, 1])
    for package, base in ((0, 0x16), (1, 0x96)):
        top = machine.host_bridge(package, base, base + 1)
        port = machine.bridge(top, f"0000:{base:02x}:02.0", base + 1, base + 1, "8086:352a")
        machine.gpu(port, f"0000:{base + 1:02x}:00.0", "NVIDIA L40S", "10de:26b9")
        top = machine.host_bridge(package, base + 0x20, base + 0x21)
        port = machine.bridge(top, f"0000:{base + 0x20:02x}:04.0", base + 0x21, base + 0x21,
                              "8086:352a")
        machine.hca(port, f"0000:{base + 0x21:02x}:00.0")
    machine.write("hwloc-two-socket-plain.xml")


def power9():
    """GPUs and NICs in PCI domains of their own."""
    machine = Machine("ppc64le", {"CPUModel": "POWER9, altivec supported"}, [0, 8])
    for package, gpus, nics in ((0, 0x0004, 0x0003), (1, 0x0035, 0x0033)):
        top = machine.host_bridge(package, 0, 1, domain=nics)
        port = machine.bridge(top, f"{nics:04x}:00:00.0", 1, 1, "1014:04c1")
        machine.hca(port, f"{nics:04x}:01:00.0", ids="15b3:1019")
        machine.hca(port, f"{nics:04x}:01:00.1", ids="15b3:1019")
        top = machine.host_bridge(package, 0, 4, domain=gpus)
        port = machine.bridge(top, f"{gpus:04x}:00:00.0", 1, 4, "1014:04c1")
        up = machine.bridge(port, f"{gpus:04x}:01:00.0", 2, 4, "10b5:8725")
        for i in range(2):
            down = machine.bridge(up, f"{gpus:04x}:02:{0xa + i:02x}.0", 3 + i, 3 + i, "10b5:8725")
            machine.gpu(down, f"{gpus:04x}:{3 + i:02x}:00.0", "Tesla V100-SXM2-16GB", "10de:1db1")
    machine.write("hwloc-power9.xml")


def dual_port_cards():
    """Per switch, two GPUs and one card of two functions."""
    machine = Machine("x86_64", INTEL, [0, 1])
    for package, base in ((0, 0x30), (1, 0xb0)):
        top = machine.host_bridge(package, base, base + 5)
        port = machine.bridge(top, f"0000:{base:02x}:01.0", base + 1, base + 5, "8086:352a")
        up = machine.bridge(port, f"0000:{base + 1:02x}:00.0", base + 2, base + 5)
        down = [machine.bridge(up, f"0000:{base + 2:02x}:{i:02x}.0", base + 3 + i, base + 3 + i)
                for i in range(3)]
        machine.gpu(down[0], f"0000:{base + 3:02x}:00.0", "NVIDIA A100-PCIE-40GB", "10de:20f1")
        machine.gpu(down[1], f"0000:{base + 4:02x}:00.0", "NVIDIA A100-PCIE-40GB", "10de:20f1")
        machine.hca(down[2], f"0000:{base + 5:02x}:00.0")
        machine.hca(down[2], f"0000:{base + 5:02x}:00.1")
    machine.write("hwloc-dual-port-cards.xml")


def flat_vm():
    """A guest that shows all on one bus."""
    machine = Machine("x86_64", INTEL, [0])
    top = machine.host_bridge(0, 0, 0)
    for i in range(2):
        machine.gpu(top, f"0000:00:{5 + i:02x}.0", "NVIDIA A10G", "10de:2237", nvml=False)
    machine.hca(top, "0000:00:08.0", ids="15b3:101e")
    machine.hca(top, "0000:00:09.0", ports=2, down=(2,), ids="15b3:101e")
    machine.write("hwloc-flat-vm.xml")


if __name__ == "__main__":
    for make in (dgx_h100, two_socket_plain, power9, dual_port_cards, flat_vm):
        make()

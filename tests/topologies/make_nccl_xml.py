#!/usr/bin/env python3
"""Writes six nccl-*.xml files of this folder: NCCL topology files with made-up devices.

usage: make_nccl_xml.py           writes the files
       make_nccl_xml.py --check   fails where a committed file is not what this program writes

They have the elements and attributes that NCCL's src/graph/xml.cc reads and writes; the other
nccl-*.xml files are edited by hand.
"""

import xml.etree.ElementTree as ET

import committed

BROADCOM = {"vendor": "0x1000", "device": "0xc010", "subsystem_vendor": "0x1000",
            "subsystem_device": "0xa096"}  # whose inner switches NCCL takes for parts of it


class File:
    """A <system> with the devices that were added, which are numbered as they are made."""

    def __init__(self, comment, version="1"):
        self.comment = comment
        self.system = ET.Element("system", version=version)
        self.hcas = 0
        self.gpus = []

    def cpu(self, node, **attributes):
        return ET.SubElement(self.system, "cpu", {"numaid": str(node), "arch": "x86_64"} | attributes)

    def pci(self, parent, bus, class_code, ids, slot="00.0", speed="16.0 GT/s PCIe"):
        return ET.SubElement(parent, "pci", {"busid": f"0000:{bus:02x}:{slot}", "class": class_code}
                             | ids | {"link_speed": speed, "link_width": "16"})

    def gpu(self, parent, bus, class_code, ids, **attributes):
        pci = self.pci(parent, bus, class_code, ids)
        gpu = ET.SubElement(pci, "gpu", {"dev": str(len(self.gpus))} | attributes
                            | {"rank": str(len(self.gpus)), "gdr": "1"})
        self.gpus.append((pci.get("busid"), gpu))

    def hca(self, parent, bus, ids, speeds):
        """A card with a port of each speed in Mb/s; every port is a device with a name of its own."""
        nic = ET.SubElement(self.pci(parent, bus, "0x020700", ids), "nic")
        for port, speed in enumerate(speeds, 1):
            ET.SubElement(nic, "net", name=f"mlx5_{self.hcas}", dev=str(self.hcas), speed=str(speed),
                          port=str(port), latency="0.000000", guid=f"0x4b000000000000{bus:02x}",
                          maxconn="131072", gdr="1")
            self.hcas += 1

    def text(self):
        ET.indent(self.system)
        return f"<!-- {self.comment} -->\n{ET.tostring(self.system, encoding='unicode')}\n"


def ids(vendor, device, subsystem_vendor="0x0000", subsystem_device="0x0000"):
    return {"vendor": vendor, "device": device, "subsystem_vendor": subsystem_vendor,
            "subsystem_device": subsystem_device}


def nvlinks(file):
    """Two links from each GPU to each of six NVSwitches."""
    for _, gpu in file.gpus:
        for bus in range(0xf0, 0xf6):
            ET.SubElement(gpu, "nvlink", target=f"0000:{bus:02x}:00.0", count="2", tclass="0x068000")


def cloud_4nic():
    """A cloud's own file: made-up bridges, classes in place of <gpu> and <net>, comments."""
    file = File("a cloud guest: a made-up bridge for each NIC and its two GPUs")
    for number, bus in enumerate((0x18, 0x28, 0x98, 0xa8)):
        if number % 2 == 0:
            cpu = file.cpu(number // 2, vendor="GenuineIntel", familyid="6", modelid="85")
        cpu.append(ET.Comment(f" switch {number} begins "))
        bridge = ET.SubElement(cpu, "pci", {"busid": f"ffff:ff:0{number + 1}.0", "class": "0x060400"}
                               | ids("0xffff", "0xffff", "0xffff", "0xffff")
                               | {"link_speed": "8 GT/s", "link_width": "16"})
        a100 = ids("0x10de", "0x20b0", "0x10de", "0x134f")
        file.pci(bridge, bus, "0x030200", a100, "1e.0", "8 GT/s")
        file.pci(bridge, bus, "0x030200", a100, "1f.0", "8 GT/s")
        file.pci(bridge, bus, "0x020000", ids("0x1d0f", "0xefa0", "0x1d0f", "0xefa0"), "1d.0",
                 "8 GT/s")
        cpu.append(ET.Comment(f" switch {number} ends "))
    return file.text()


def dgx_a100_cascade():
    """Per quarter a Broadcom switch with three inner ones; GPUs behind switches of their boards."""
    file = File("8 GPUs, each behind a switch of its board; per quarter, a switch whose three inner "
                "switches count as parts of it; two storage cards of two ports")
    a100 = ids("0x10de", "0x20b0", "0x10de", "0x134f")
    board = BROADCOM | {"subsystem_vendor": "0x10de", "subsystem_device": "0x13b8"}
    card = ids("0x15b3", "0x101b", "0x15b3", "0x0007")

    def gpu(parent, bus):
        own = file.pci(parent, bus, "0x060400", board)
        file.gpu(own, bus + 2, "0x030200", a100, sm="80")

    def quarter(node, base, gpu_first):
        cpu = file.cpu(node, vendor="AuthenticAMD", familyid="143", modelid="49")
        top = file.pci(cpu, base, "0x060400", BROADCOM)
        top.text = "0"  # earlier releases of NCCL write such numbers between the elements
        if gpu_first:
            gpu(file.pci(top, base + 2, "0x060400", BROADCOM), base + 4)
        inner = file.pci(top, base + 8, "0x060400", BROADCOM)
        file.hca(inner, base + 10, card, [200000])
        gpu(inner, base + 11)
        file.hca(file.pci(top, base + 15, "0x060400", BROADCOM), base + 17, card, [200000])
        if not gpu_first:
            gpu(file.pci(top, base + 2, "0x060400", BROADCOM), base + 4)

    def storage(node, bus):
        cpu = file.cpu(node, vendor="AuthenticAMD", familyid="143", modelid="49")
        file.hca(cpu, bus, ids("0x15b3", "0x101b", "0x15b3", "0x0009"), [200000, 100000])

    quarter(3, 0x02, True)
    quarter(1, 0x42, False)
    storage(0, 0x62)
    quarter(7, 0x82, False)
    quarter(5, 0xb2, False)
    storage(4, 0xe2)
    nvlinks(file)
    return file.text()


def amd_8gpu():
    """8 GPUs of AMD, linked to each other by xGMI, each with a NIC two switches away."""
    file = File("8 GPUs of AMD: per GPU, two switches above its own; the NIC is on the first",
                version="2")
    nvidia, amd = ids("0x15b3", "0x1979"), ids("0x1022", "0x1500", "0x1022", "0x1500")
    for number, bus in enumerate((0x10, 0x20, 0x30, 0x60, 0x90, 0xa0, 0xb0, 0xd0)):
        if number % 4 == 0:
            cpu = file.cpu(number // 4, vendor="GenuineIntel", familyid="6", modelid="143")
        top = file.pci(cpu, bus, "0x060400", nvidia)
        inner = file.pci(file.pci(top, bus + 3, "0x060400", nvidia), bus + 5, "0x060400", amd)
        file.gpu(inner, bus + 7, "0x120000", ids("0x1002", "0x74a1", "0x1002", "0x74a1"), sm="304",
                 gcn="gfx942", arch="38911")
        file.hca(top, bus + 2, ids("0x15b3", "0x1021", "0x15b3", "0x0101"), [400000])
    for _, gpu in file.gpus:
        for busid, other in file.gpus:
            if other is not gpu:
                ET.SubElement(gpu, "xgmi", target=busid, count="1", tclass="0x120000")
    return file.text()


def cascade_4nic():
    """Per socket a switch above two others, each with a NIC and two GPUs on boards of their own."""
    file = File("8 GPUs behind switches of their boards: per socket, a switch above two others, each "
                "with two boards and a NIC")
    switch = ids("0x11f8", "0x4000", "0x11f8", "0x0000")
    h100 = ids("0x10de", "0x2330", "0x10de", "0x16c1")
    for node, base in enumerate((0x10, 0x90)):
        cpu = file.cpu(node, vendor="GenuineIntel", familyid="6", modelid="143")
        top = file.pci(cpu, base, "0x060400", switch, speed="32.0 GT/s PCIe")
        for bus in (base + 0x10, base + 0x20):
            inner = file.pci(top, bus, "0x060400", switch, speed="32.0 GT/s PCIe")
            for board in (bus + 2, bus + 5):
                own = file.pci(inner, board, "0x060400", switch, speed="32.0 GT/s PCIe")
                file.gpu(own, board + 1, "0x030200", h100, sm="90")
            file.hca(inner, bus + 8, ids("0x15b3", "0x1021", "0x15b3", "0x0041"), [400000])
    nvlinks(file)
    return file.text()


def nps4_2nic():
    """Two sockets of four NUMA nodes, a GPU on each node, a NIC on one node of each socket."""
    file = File("8 NUMA nodes, four to a socket, with a GPU each; a NIC on nodes 6 and 0")
    mi200 = ids("0x1002", "0x740c", "0x1002", "0x0b0c")
    for node, bus in enumerate((0xc0, 0x80, 0x40, 0x01, 0xe0, 0xa0, 0x60, 0x21)):
        cpu = file.cpu(node, vendor="AuthenticAMD", familyid="175", modelid="1")
        file.gpu(cpu, bus, "0x038000", mi200, sm="90")
        if node in (0, 6):
            file.hca(cpu, bus + 2, ids("0x15b3", "0x101b", "0x15b3", "0x0007"), [200000])
    return file.text()


def cross_wired():
    """The NIC that belongs to the first switch is cabled to a switch of the other socket."""
    file = File("four switches of two GPUs, linked by bridges; the NIC of the first switch is cabled to "
                "the third, on the other socket")
    switch, h100 = ids("0x15b3", "0x1979"), ids("0x10de", "0x2321", "0x10de", "0x1839")
    card = ids("0x15b3", "0x1021", "0x15b3", "0x0041")
    for number, (bus, nics) in enumerate(((0x10, 0), (0x30, 1), (0x90, 2), (0xb0, 1))):
        if number % 2 == 0:
            cpu = file.cpu(number // 2, vendor="GenuineIntel", familyid="6", modelid="143",
                           affinity=("00000000,ffffffff", "ffffffff,00000000")[number // 2])
        top = file.pci(cpu, bus, "0x060400", switch)
        for below in range(2):
            file.gpu(top, bus + 2 + below, "0x030200", h100, sm="90")
        for below in range(nics):
            file.hca(top, bus + 6 + below, card, [400000])
    for number, (_, gpu) in enumerate(file.gpus):
        peer = file.gpus[number ^ 1][0]
        ET.SubElement(gpu, "nvlink", target=peer, count="12", tclass="0x030200")
    for device in file.system.iter("pci"):
        device.set("link_speed", "32.0 GT/s PCIe")
    return file.text()


FILES = {
    "nccl-amd-8gpu.xml": amd_8gpu,
    "nccl-cascade-4nic.xml": cascade_4nic,
    "nccl-cloud-4nic.xml": cloud_4nic,
    "nccl-cross-wired.xml": cross_wired,
    "nccl-dgx-a100-cascade.xml": dgx_a100_cascade,
    "nccl-nps4-2nic.xml": nps4_2nic,
}

if __name__ == "__main__":
    committed.main(FILES)

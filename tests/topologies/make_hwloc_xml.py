#!/usr/bin/env python3
"""Writes the hwloc-*.xml files of this folder: machines of known shapes with made-up devices.

usage: make_hwloc_xml.py           writes the files
       make_hwloc_xml.py --check   fails where a committed file is not what this program writes

The files are committed, so that tests read them without running Python; after a change here, write
them again and commit both. `lstopo -i hwloc-dgx-h100.xml` draws one.
"""

import xml.etree.ElementTree as ET

import committed

HCA = "15b3:1021"
CPUS_PER_PACKAGE = 8


class Machine:
    """Packages with one NUMA node each, and PCI trees below them.

    `cpus` has the numbers of each package's CPUs, by default CPUS_PER_PACKAGE in a row.
    """

    def __init__(self, arch, cpu, nodes, cpus=None):
        self.last_index = 0
        self.vendor_infos = cpu
        self.cpus = cpus or [range(i * CPUS_PER_PACKAGE, (i + 1) * CPUS_PER_PACKAGE)
                             for i in range(len(nodes))]
        everything = {"cpuset": mask(cpu for some in self.cpus for cpu in some),
                      "nodeset": mask(nodes)}
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
        cpus = self.cpus[number]
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

    def other(self, parent, busid, class_code, ids):
        """A function that is neither GPU nor HCA: a server's own display, an Ethernet controller."""
        self.add(parent, "PCIDev", **function(busid, class_code, ids))

    def gpu(self, parent, busid, model, ids="10de:2330", nvml=True, class_code="0302"):
        gpu = self.add(parent, "PCIDev", **function(busid, class_code, ids))
        if nvml:
            device = self.add(gpu, "OSDev", name=f"nvml{len(self.nvml)}", osdev_type="1")
            info(device, "GPUModel", model)
            self.nvml[busid] = device
        else:
            info(gpu, "PCIDevice", model)
        return gpu

    def hca(self, parent, busid, ports=1, down=(), ids=HCA, class_code="0207", name=None):
        """Devices are numbered as they are made. Functions of one card have one system image."""
        card = self.add(parent, "PCIDev", **function(busid, class_code, ids))
        domain, bus, slot = busid[:-2].split(":")
        device = self.add(card, "OSDev", name=name or f"mlx5_{self.hcas}", osdev_type="3")
        info(device, "NodeGUID", f"0200:{domain}:{slot}{busid[-1]}0:{bus}00")
        info(device, "SysImageGUID", f"0200:{domain}:{slot}00:{bus}00")
        for port in range(1, ports + 1):
            info(device, f"Port{port}State", "1" if port in down else "4")
        self.hcas += 1

    def nvswitch(self, parent, busid, ids="10de:22a3"):
        self.nvswitches.append(self.add(parent, "PCIDev", **function(busid, "0680", ids)))

    def text(self):
        if self.nvswitches:
            self.write_nvlinks()
        ET.indent(self.top)
        text = ET.tostring(self.top, encoding="unicode")
        header = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n'
        return f"{header}{text}\n"

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


    def add_hbm(self):
        """A node of high-bandwidth memory beside each package's DRAM, with the same CPUs."""
        nodes = len(self.packages)
        for number, package in enumerate(self.packages):
            node = ET.Element("object", type="NUMANode", os_index=str(nodes + number),
                              **sets_of(self.cpus[number], nodes + number), local_memory=str(2**36))
            self.last_index += 1
            node.set("gp_index", str(self.last_index))
            package.insert(len(self.vendor_infos) + 1, node)
            for name in ("nodeset", "complete_nodeset"):
                package.set(name, mask([number, nodes + number]))
        for name in ("nodeset", "complete_nodeset", "allowed_nodeset"):
            self.root.set(name, mask(range(2 * nodes)))

    def add_latencies(self, rows):
        """The matrix of latencies between nodes 0, 1, ... as the firmware states them."""
        matrix = ET.SubElement(self.top, "distances2", type="NUMANode", nbobjs=str(len(rows)),
                               kind="5", name="NUMALatency", indexing="os")
        for kind, numbers in [("indexes", range(len(rows))), *(("u64values", row) for row in rows)]:
            text = "".join(f"{number} " for number in numbers)
            ET.SubElement(matrix, kind, length=str(len(text))).text = text

    def text_of_hwloc_1(self):
        """As hwloc 1 wrote it: NUMA nodes hold packages, which are called sockets."""
        del self.top.attrib["version"]
        for item in self.top.iter("object"):
            del item.attrib["gp_index"]
            if "cpuset" in item.attrib:
                for name in ("online_cpuset", "allowed_cpuset"):
                    item.set(name, item.get("cpuset"))
                item.set("allowed_nodeset", item.get("nodeset"))
        for package in self.packages:
            node = package.find("object[@type='NUMANode']")
            package.remove(node)
            package.set("type", "Socket")
            self.root.insert(list(self.root).index(package), node)
            self.root.remove(package)
            node.append(package)
        return self.text().replace("hwloc2.dtd", "hwloc.dtd")


def mask(bits):
    """The set as hwloc prints it: a group of 32 bits that is empty is "", or "0x0" at the end."""
    value = sum(1 << bit for bit in bits)
    groups = []
    while value or not groups:
        group = value & 0xffffffff
        groups.append(f"0x{group:08x}" if group else "" if groups else "0x0")
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
    return machine.text()


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
    return machine.text()


def power9():
    """GPUs and NICs in PCI domains of their own; CPUs with gaps; a server's own display and Ethernet."""
    machine = Machine("ppc64le", {"CPUModel": "POWER9, altivec supported"}, [0, 8],
                      [range(8, 16), range(104, 112)])
    top = machine.host_bridge(0, 0, 2, domain=0x0002)
    port = machine.bridge(top, "0002:00:00.0", 1, 2, "1014:04c1")
    machine.other(machine.bridge(port, "0002:01:00.0", 2, 2, "1a03:1150"), "0002:02:00.0", "0300",
                  "1a03:2000")
    top = machine.host_bridge(0, 0, 1, domain=0x0005)
    machine.other(machine.bridge(top, "0005:00:00.0", 1, 1, "1014:04c1"), "0005:01:00.0", "0200",
                  "14e4:1657")
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
    return machine.text()


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
    return machine.text()


def flat_vm():
    """A guest that shows all on one bus."""
    machine = Machine("x86_64", INTEL, [0])
    top = machine.host_bridge(0, 0, 0)
    for i in range(2):
        machine.gpu(top, f"0000:00:{5 + i:02x}.0", "NVIDIA A10G", "10de:2237", nvml=False)
    machine.hca(top, "0000:00:08.0", ids="15b3:101e")
    machine.hca(top, "0000:00:09.0", ports=2, down=(2,), ids="15b3:101e")
    return machine.text()


def dgx2():
    """16 GPUs in pairs with a NIC under a switch, two such below another; NVSwitches; 3 other NICs."""
    machine = Machine("x86_64", INTEL, [0, 1], [range(0, 12), range(32, 44)])

    def storage(package, root, functions):
        top = machine.host_bridge(package, root, root + 1)
        port = machine.bridge(top, f"0000:{root:02x}:00.0", root + 1, root + 1, "8086:2030")
        for i in range(functions):
            machine.hca(port, f"0000:{root + 1:02x}:00.{i}", ids="15b3:1017",
                        class_code="0200" if functions > i + 1 else "0207")

    def pair(upper, number, bus):
        """One downstream port of the upper switch, and the switch of two GPUs and their NIC there."""
        down = machine.bridge(upper, f"0000:{int(upper.get('pci_busid')[5:7], 16) + 1:02x}:"
                              f"{4 + 8 * number:02x}.0", bus, bus + 4, "10b5:9781")
        up = machine.bridge(down, f"0000:{bus:02x}:00.0", bus + 1, bus + 4, "10b5:9781")
        ports = [machine.bridge(up, f"0000:{bus + 1:02x}:{slot:02x}.0", bus + 2 + i, bus + 2 + i,
                                "10b5:9781") for i, slot in enumerate((0, 4, 16))]
        machine.gpu(ports[0], f"0000:{bus + 2:02x}:00.0", "Tesla V100-SXM3-32GB", "10de:1db8")
        machine.hca(ports[1], f"0000:{bus + 3:02x}:00.0", ids="15b3:1017")
        machine.gpu(ports[2], f"0000:{bus + 4:02x}:00.0", "Tesla V100-SXM3-32GB", "10de:1db8")

    def plane(upper, bus):
        """The switch of six NVSwitches, on a third port of the upper switch."""
        down = machine.bridge(upper, f"0000:{int(upper.get('pci_busid')[5:7], 16) + 1:02x}:10.0",
                              bus, bus + 7, "10b5:9781")
        up = machine.bridge(down, f"0000:{bus:02x}:00.0", bus + 1, bus + 7, "10b5:8725")
        for i in range(6):
            port = machine.bridge(up, f"0000:{bus + 1:02x}:{2 + i:02x}.0", bus + 2 + i, bus + 2 + i,
                                  "10b5:8725")
            machine.nvswitch(port, f"0000:{bus + 2 + i:02x}:00.0", "10de:1ac2")

    def quarter(package, root, with_nvswitches):
        top = machine.host_bridge(package, root, root + 0x15)
        port = machine.bridge(top, f"0000:{root:02x}:00.0", root + 1, root + 0x15, "8086:2030")
        upper = machine.bridge(port, f"0000:{root + 1:02x}:00.0", root + 2, root + 0x15, "10b5:9781")
        pair(upper, 0, root + 3)
        pair(upper, 1, root + 8)
        if with_nvswitches:
            plane(upper, root + 13)

    storage(0, 0x0f, 1)
    quarter(0, 0x20, False)
    quarter(0, 0x40, True)
    storage(1, 0x8f, 2)
    quarter(1, 0xa0, True)
    quarter(1, 0xc0, False)
    return machine.text()


def shared_nic():
    """Two GPUs and the only NIC on one switch of socket 0; nothing on socket 1."""
    machine = Machine("x86_64", INTEL, [0, 1])
    top = machine.host_bridge(0, 0x00, 0x15)
    port = machine.bridge(top, "0000:00:02.0", 0x10, 0x13, "8086:6f04")
    up = machine.bridge(port, "0000:10:00.0", 0x11, 0x13, "10b5:8796")
    down = [machine.bridge(up, f"0000:11:{8 * i:02x}.0", 0x12 + i, 0x12 + i, "10b5:8796")
            for i in range(3)]
    machine.gpu(down[0], "0000:12:00.0", "Tesla P100-PCIE-16GB", "10de:15f8")
    machine.gpu(down[1], "0000:13:00.0", "Tesla P100-PCIE-16GB", "10de:15f8")
    machine.hca(down[2], "0000:14:00.0", ids="15b3:1017")
    port = machine.bridge(top, "0000:00:1c.4", 0x15, 0x15, "8086:8d18")
    machine.other(port, "0000:15:00.0", "0200", "8086:1521")
    return machine.text()


def cloud_far_nic():
    """8 GPUs on root ports of both sockets; the only NIC, which is none of Mellanox, on socket 1."""
    machine = Machine("x86_64", INTEL, [0, 1])

    def gpus(package, root):
        top = machine.host_bridge(package, root, root + 2)
        for i in range(2):
            port = machine.bridge(top, f"0000:{root:02x}:{2 * i:02x}.0", root + 1 + i, root + 1 + i,
                                  "8086:2030")
            machine.gpu(port, f"0000:{root + 1 + i:02x}:00.0", "Tesla T4", "10de:1eb8")

    gpus(0, 0x12)
    gpus(0, 0x3a)
    top = machine.host_bridge(1, 0xa0, 0xa4)
    port = machine.bridge(top, "0000:a0:00.0", 0xa1, 0xa4, "8086:2030")
    up = machine.bridge(port, "0000:a1:00.0", 0xa2, 0xa4, "1d0f:bec2")
    down = [machine.bridge(up, f"0000:a2:0{i}.0", 0xa3 + i, 0xa3 + i, "1d0f:bec2") for i in range(2)]
    machine.hca(down[0], "0000:a3:00.0", ids="1d0f:efa0", class_code="0200", name="rdmap163s0")
    machine.other(down[1], "0000:a4:00.0", "0200", "1d0f:ec20")
    gpus(1, 0xd2)
    gpus(1, 0xea)
    return machine.text()


def epyc_amd():
    """8 GPUs of AMD, each behind a switch of its own and on a host bridge of its own; one NIC."""
    machine = Machine("x86_64", {"CPUVendor": "AuthenticAMD", "CPUFamilyNumber": "23",
                                 "CPUModelNumber": "49"}, [0, 1])
    for i in range(8):
        root = 0x08 + 0x20 * i
        top = machine.host_bridge(i // 4, root, root + 0x10)
        port = machine.bridge(top, f"0000:{root:02x}:01.1", root + 1, root + 3, "1022:1483")
        up = machine.bridge(port, f"0000:{root + 1:02x}:00.0", root + 2, root + 3, "1002:14a0")
        down = machine.bridge(up, f"0000:{root + 2:02x}:00.0", root + 3, root + 3, "1002:14a1")
        machine.gpu(down, f"0000:{root + 3:02x}:00.0", "Vega 20", "1002:66a1", nvml=False,
                    class_code="0380")
        if i == 0:  # the server's own display
            port = machine.bridge(top, f"0000:{root:02x}:05.2", root + 4, root + 5, "1022:1483")
            inner = machine.bridge(port, f"0000:{root + 4:02x}:00.0", root + 5, root + 5, "1a03:1150")
            machine.other(inner, f"0000:{root + 5:02x}:00.0", "0300", "1a03:2000")
        if i == 6:
            port = machine.bridge(top, f"0000:{root:02x}:03.1", root + 4, root + 4, "1022:1483")
            machine.hca(port, f"0000:{root + 4:02x}:00.0", ids="15b3:101b")
    return machine.text()


def one_gpu():
    """A GPU of display class and a card of two functions on root ports of socket 1."""
    machine = Machine("x86_64", INTEL, [0, 1],
                      [[*range(0, 4), *range(64, 68)], [*range(32, 36), *range(96, 100)]])
    top = machine.host_bridge(0, 0x00, 0x02)
    port = machine.bridge(top, "0000:00:0f.0", 0x01, 0x02, "8086:1bbf")
    inner = machine.bridge(port, "0000:01:00.0", 0x02, 0x02, "1a03:1150")
    machine.other(inner, "0000:02:00.0", "0300", "1a03:2000")
    top = machine.host_bridge(1, 0x88, 0x89)
    port = machine.bridge(top, "0000:88:01.0", 0x89, 0x89, "8086:352a")
    machine.gpu(port, "0000:89:00.0", "NVIDIA RTX 4000", "10de:27b2", nvml=False, class_code="0300")
    top = machine.host_bridge(1, 0xba, 0xbb)
    port = machine.bridge(top, "0000:ba:01.0", 0xbb, 0xbb, "8086:352a")
    machine.hca(port, "0000:bb:00.0", ids="15b3:101d", class_code="0200")
    machine.hca(port, "0000:bb:00.1", ids="15b3:101d", class_code="0200")
    return machine.text()


def xeon_max_flat():
    """A GPU and a NIC per socket; the HBM of each socket is a NUMA node with the socket's CPUs."""
    machine = Machine("x86_64", INTEL, [0, 1])
    machine.add_hbm()
    machine.add_latencies([[10, 21, 13, 23], [21, 10, 23, 13], [13, 23, 10, 23], [23, 13, 23, 10]])
    for package, root in ((0, 0x30), (1, 0xb0)):
        top = machine.host_bridge(package, root, root + 2)
        for i in range(2):
            port = machine.bridge(top, f"0000:{root:02x}:0{1 + 2 * i}.0", root + 1 + i, root + 1 + i,
                                  "8086:352a")
            if i == 0:
                machine.gpu(port, f"0000:{root + 1:02x}:00.0", "NVIDIA H100 PCIe", "10de:2331",
                            nvml=False)
            else:
                machine.hca(port, f"0000:{root + 2:02x}:00.0")
    return machine.text()


def version_1():
    """4 GPUs without a matrix of NVLinks, each on the switch of its NIC; a file of hwloc 1."""
    machine = Machine("x86_64", INTEL, [0, 1])
    for i in range(4):
        root = 0x10 + 0x40 * i
        top = machine.host_bridge(i // 2, root, root + 4)
        port = machine.bridge(top, f"0000:{root:02x}:01.0", root + 1, root + 4, "8086:352a")
        up = machine.bridge(port, f"0000:{root + 1:02x}:00.0", root + 2, root + 4)
        down = [machine.bridge(up, f"0000:{root + 2:02x}:0{j}.0", root + 3 + j, root + 3 + j)
                for j in range(2)]
        machine.gpu(down[0], f"0000:{root + 3:02x}:00.0", "NVIDIA A100-SXM4-40GB", "10de:20b0",
                    nvml=False)
        machine.hca(down[1], f"0000:{root + 4:02x}:00.0")
    return machine.text_of_hwloc_1()


FILES = {
    "hwloc-cloud-far-nic.xml": cloud_far_nic,
    "hwloc-dgx-h100.xml": dgx_h100,
    "hwloc-dgx2.xml": dgx2,
    "hwloc-dual-port-cards.xml": dual_port_cards,
    "hwloc-epyc-amd.xml": epyc_amd,
    "hwloc-flat-vm.xml": flat_vm,
    "hwloc-one-gpu.xml": one_gpu,
    "hwloc-power9.xml": power9,
    "hwloc-shared-nic.xml": shared_nic,
    "hwloc-two-socket-plain.xml": two_socket_plain,
    "hwloc-version-1.xml": version_1,
    "hwloc-xeon-max-flat.xml": xeon_max_flat,
}

if __name__ == "__main__":
    committed.main(FILES)

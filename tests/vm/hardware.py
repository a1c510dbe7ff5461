"""The hardware of a guest: sockets and their memory, the PCIe tree, an IOMMU."""

import dataclasses

_NODE_MIB = 512

# Words for the kernel's command line of a guest that measures time: the processor's time-stamp counter
# in place of an emulated timer's registers, and idle processors that poll, as an emulator takes long to
# wake them.
STEADY = "clocksource=tsc tsc=reliable idle=poll"


@dataclasses.dataclass(frozen=True)
class Switch:
    """A PCIe switch below a root port. slots has the device of each downstream port: "nic", "display" (in
    place of a GPU) or None. QEMU's downstream ports never have Access Control Services; port_acs puts root
    ports in their place, which do."""
    slots: tuple = ("nic",)
    port_acs: bool = False


@dataclasses.dataclass(frozen=True)
class Hardware:
    """Each socket is a NUMA node with 512 MiB. switches[s] has the switches of socket s; NICs without a
    slot are on the first host bridge. iommu is "" (none), "translated" or "passthrough". cmdline has
    further words for the kernel's command line."""
    sockets: int = 1
    cpus_per_socket: int = 1
    switches: tuple = ()
    iommu: str = ""
    cmdline: str = ""

    def kernel_words(self):
        iommu = {"": "", "translated": "intel_iommu=on iommu.strict=1",
                 "passthrough": "intel_iommu=on iommu=pt"}[self.iommu]
        return f"{iommu} {self.cmdline}"

    def qemu_words(self, nics):
        """nics has (value of -netdev, MAC address) in the order of eth0, eth1, ..."""
        words = self._processors()
        if self.iommu:
            words += ["-device", "intel-iommu"]
        free = self._add_tree(words)
        for index, nic in enumerate(nics):
            bus = free.pop(0) if free else "pcie.0"
            words += ["-netdev", f"{nic[0]},id=net{index}", "-device",
                      f"virtio-net-pci,netdev=net{index},mac={nic[1]},host_mtu=9000,bus={bus}"]
        return words

    def _processors(self):
        cpus = self.sockets * self.cpus_per_socket
        words = ["-machine", "q35", "-m", str(max(self.sockets, 2) * _NODE_MIB), "-smp",
                 f"{cpus},sockets={self.sockets},cores={self.cpus_per_socket},threads=1"]
        if self.sockets == 1:
            return words
        for node in range(self.sockets):
            first = node * self.cpus_per_socket
            words += ["-object", f"memory-backend-ram,id=mem{node},size={_NODE_MIB}M", "-numa",
                      f"node,nodeid={node},cpus={first}-{first + self.cpus_per_socket - 1},"
                      f"memdev=mem{node}"]
        return words

    def _add_tree(self, words):
        """Adds the PCIe tree to the words; returns the ports for NICs."""
        ports, chassis = [], 0
        for node, switches in enumerate(self.switches):
            words += ["-device", f"pxb-pcie,id=bridge{node},bus=pcie.0,bus_nr={32 * (node + 1)},"
                                 f"numa_node={node}"]
            for number, switch in enumerate(switches):
                name = f"{node}{number}"
                chassis += 1
                words += ["-device", f"pcie-root-port,id=root{name},bus=bridge{node},slot={chassis},"
                                     f"chassis={chassis}",
                          "-device", f"x3130-upstream,id=up{name},bus=root{name}"]
                for slot, content in enumerate(switch.slots):
                    chassis += 1
                    port = f"down{name}{slot}"
                    model = "pcie-root-port" if switch.port_acs else "xio3130-downstream"
                    words += ["-device", f"{model},id={port},bus=up{name},slot={slot},"
                                         f"chassis={chassis}"]
                    if content == "nic":
                        ports.append(port)
                    elif content == "display":
                        words += ["-device", f"bochs-display,bus={port}"]
        return ports

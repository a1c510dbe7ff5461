"""What is measured: which rail sends to which, from which memory to which."""

import dataclasses

from burn_in.rails import End


@dataclasses.dataclass
class Case:
    """`first` sends to `second`; between two machines, it is the one of rank 0."""
    mode: str  # "local", "loopback", "remote"
    first: End
    second: End
    note: str = ""

    def ends(self):
        return [self.first] if self.mode == "loopback" else [self.first, self.second]

    def rails(self):
        if self.mode == "loopback":
            return f"{self.first.name()} to itself"
        if self.mode == "local":
            return f"{self.first.name()} to {self.second.name()}"
        return f"{self.first.name()} <-> {self.second.hca}:{self.second.port}"

    def memory(self):
        return ", ".join(dict.fromkeys(end.memory() for end in self.ends()))

    def subject(self):
        return f"{self.rails()}, {self.memory()}"

    def uses_gpu(self):
        return any(end.gpu is not None for end in self.ends())


def loopback(rails):
    """Each port with itself: host memory, then each GPU whose rail it is."""
    return [Case("loopback", end, end) for rail in rails for end in [rail.host, *rail.gpus]]


def local(rails):
    """A ring: each rail sends to the next one of its fabric, and the last one to the first, so that
    N measurements have every port once as the sender and once as the receiver."""
    cases = []
    for i, rail in enumerate(rails):
        others = rails[i + 1:] + rails[:i]
        following = next((one for one in others if one.host.fabric == rail.host.fabric), None)
        if following:
            cases += _between("local", rail, following)
            continue
        why = "no other usable rail is in its fabric" if others else "there is no other usable rail"
        cases += [dataclasses.replace(one, note=f"without the cable, as {why}")
                  for one in loopback([rail])]
    return cases


def remote(here, there):
    """Rail i of one machine with rail i of the other one."""
    others = {rail.host.rail: rail for rail in there}
    return [case for rail in here if rail.host.rail in others
            for case in _between("remote", rail, others[rail.host.rail])]


def unpaired(here, there):
    """The names of rails that are usable on one of two machines only."""
    numbers = [{rail.host.rail for rail in rails} for rails in (here, there)]
    return [rail.host.name() for rail in [*here, *there]
            if rail.host.rail not in numbers[0] & numbers[1]]


def _between(mode, first, second):
    """Host memory at both ends, then GPU i of one and GPU i of the other. A rail with fewer GPUs
    begins again with its first one; one without GPUs has host memory."""
    cases = [Case(mode, first.host, second.host)]
    for i in range(max(len(first.gpus), len(second.gpus))):
        ends = [rail.gpus[i % len(rail.gpus)] if rail.gpus else rail.host
                for rail in (first, second)]
        cases.append(Case(mode, *ends))
    return cases

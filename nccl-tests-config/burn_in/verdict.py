"""Judges what was measured: against the link's rate, and against rails of the same kind."""

import dataclasses
import statistics
import typing

from burn_in import rails
from burn_in.plan import Case

OK, FAILURE, UNKNOWN = "ok", "failure", "unknown"

# The least percentage of the link's rate by the class of the path: less than what is usual there
# (95-98 up to PXB, PHB 85-92, SYS 30-50), so that a path below it has a fault.
SHARES = {rails.HOST: 90, "C2C": 90, "P2C": 90, "PIX": 90, "PXB": 90, "PHB": 80, "SYS": 30}
# The least percentage of what is typical of rails of the same kind.
SIBLING_SHARE = 85


@dataclasses.dataclass
class Result:
    """A line of the report. A rail that is down has no case."""
    subject: str
    case: typing.Optional[Case] = None
    gbits: float = 0  # 0: not measured
    latency_us: float = 0
    verdict: str = UNKNOWN
    text: str = ""
    fix: str = ""
    is_reached: typing.Optional[bool] = None  # whether a small message arrived; None: unknown

    def link_gbits(self):
        """The rate of the slower port; 0: unknown."""
        return min(end.gbits for end in self.case.ends())

    def is_virtual(self):
        return any(end.is_virtual for end in self.case.ends())

    def is_over(self, end):
        return end.name() in [one.name() for one in self.case.ends()]


def parse_shares(text):
    """SHARES, with what "PIX=95,SYS=40" changes. Raises ValueError."""
    shares = dict(SHARES)
    for part in filter(None, text.split(",")):
        name, _, percent = part.partition("=")
        if name not in shares:
            raise ValueError(f"'{part}': the classes are {', '.join(shares)}, as in PIX=95,SYS=40")
        if not percent.isdecimal() or not 1 <= int(percent) <= 100:
            raise ValueError(f"'{part}' has no percentage from 1 to 100")
        shares[name] = int(percent)
    return shares


def judge(results, shares):
    """Gives every result with a case its verdict, with the likely reason and the fix."""
    measured = [one for one in results if one.gbits]
    for one in measured:
        one.verdict, text = _compared(one, measured, shares)
        one.text = "; ".join(filter(None, [text, one.case.note]))
    for one in measured:
        if one.verdict == FAILURE:
            reason, one.fix = _likely_reason(one, measured)
            one.text += f"; {reason}"
    for one in results:
        if one.is_reached is False:
            _judge_unreached(one, results)


def _compared(one, measured, shares):
    """Verdict and text."""
    if one.is_virtual():
        return UNKNOWN, "a device of software has no rate of its own, so that this is not judged"
    # A class that NCCL adds is taken for the slowest.
    share, path = min((shares.get(end.path, shares["SYS"]), end.path) for end in one.case.ends())
    link = one.link_gbits()
    if 100 * one.gbits < share * link:
        return FAILURE, (f"slower than its link: {100 * one.gbits / link:.0f} % of {link:g} Gb/s, "
                         f"and {share} % are expected ({path})")
    siblings = [other.gbits for other in measured if _kind(other) == _kind(one)]
    typical = statistics.median_high(siblings)
    if 100 * one.gbits < SIBLING_SHARE * typical:
        rate = f"at {link:g} Gb/s" if link else "at an unknown rate"
        return FAILURE, (f"slower than its siblings: {typical:.1f} Gb/s are typical of rails of "
                         f"this kind; its link runs {rate}")
    if link or len(siblings) > 1:
        return OK, ""
    return UNKNOWN, "the rate of its link is unknown, and nothing else to compare it with"


def _kind(one):
    """Rails of one kind should be alike: of one model of HCA, with paths of the same classes."""
    return one.case.mode, sorted((end.model, end.path) for end in one.case.ends())


def _likely_reason(one, measured):
    """(what is likely wrong, what to do)"""
    for end in one.case.ends():
        if end.pcie:
            return (f"the PCIe link of {end.hca} is degraded: {end.pcie}",
                    "reseat the card, look at its riser and slot, and at the BIOS settings; "
                    "nccl-gdr doctor --check pcie-link")
    for end in one.case.ends():
        over = [other for other in measured if other.is_over(end) and not other.case.uses_gpu()]
        if len(over) > 1 and all(other.verdict == FAILURE for other in over):
            return (f"{end.name()} is slow as the sender and as the receiver",
                    "look at its cable and switch port: nccl-gdr doctor --check "
                    "port-rate,port-mtu,error-counters; where nccl-gdr-burn-in loopback is slow, "
                    "too, at PCIe and memory: --check pcie-link,numa")
    if one.case.uses_gpu() and _host_memory_is_fast(one, measured):
        return ("host memory over the same port is not slow, so that it is the path to the GPU",
                "nccl-gdr doctor --check pci-acs,iommu,gpu-rail-path,pcie-link; "
                "where every GPU is as slow, that is the machine's limit, which --expect sets")
    if one.case.mode == "loopback":
        return ("without the cable, it is PCIe, memory or the HCA",
                "nccl-gdr doctor --check pcie-link,numa,iommu; "
                "where every rail is as slow, that is the machine's limit, which --expect sets")
    return ("it is one of both ports or what is between them",
            "nccl-gdr-burn-in loopback on every machine that took part: where both ports reach "
            "their rate, look at cables, switch ports and congestion: nccl-gdr doctor --check "
            "port-rate,port-mtu,error-counters")


def _host_memory_is_fast(one, measured):
    return any(other.verdict == OK for other in measured
               if other.case.rails() == one.case.rails() and not other.case.uses_gpu())


def _judge_unreached(one, results):
    """A fabric that is optimised for rails may keep two rails of a machine apart. It is a fault
    where other pairs show that the fabric connects them, and between the same rails of two
    machines."""
    why = "the same rails of two machines have to reach each other"
    if one.case.mode == "local":
        why = _fault_of_pair(one, [other for other in results if other.case
                                   and other.case.mode == "local" and other.is_reached is not None
                                   and other.case.first.fabric == one.case.first.fabric])
    if why:
        one.verdict, one.text = FAILURE, f"{one.text}; {why}"
    else:
        one.fix = ("none where the fabric keeps rails apart, which nccl-gdr-burn-in remote then "
                   f"measures. Otherwise: {one.fix}")


def _fault_of_pair(one, ring):
    """Why a pair is at fault, by what is known of the ring that it is part of; "": no fault."""
    lost = [other for other in ring if not other.is_reached]
    reached = [other for other in ring if other.is_reached]
    if reached and len(lost) == 1:
        return "all other pairs of this fabric reach each other"
    for end in one.case.ends():
        # Of one pair either rail may be the reason; a rail is in two pairs of the ring.
        if reached and sum(other.is_over(end) for other in lost) > 1:
            return f"other rails of this fabric reach each other, and none reaches {end.name()}"
    return ""


def exit_status(results):
    """0: nothing is slow; 1: a fault; 3: nothing could be measured or judged."""
    verdicts = {one.verdict for one in results}
    if FAILURE in verdicts:
        return 1
    return 0 if OK in verdicts else 3

"""Which connections NCCL opens between nodes: rings, double binary trees and alltoall, in a rail-aligned cluster.

Facts are those of NCCL 2.28.3, named by file. Every node has one GPU and one rail of the same number for each
local rank, and channel c uses rail c modulo the rails. A connection belongs to the two processes whose
proxies hold its ends.
"""

import collections
import dataclasses

P2P_BATCH = 8  # NCCL_MAX_DEV_WORK_P2P_PER_BATCH (device.h)


@dataclasses.dataclass(frozen=True)
class Cluster:
    nodes: int
    gpus: int = 8           # of a node, with a rail each
    channels: int = 16      # of rings, and as many of trees
    p2p_channels: int = 32

    @property
    def ranks(self):
        return self.nodes * self.gpus


@dataclasses.dataclass
class Ends:
    """Ends of connections by process: (node, local rank) -> how many."""
    senders: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    receivers: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    def add(self, source, target, count=1):
        self.senders[source] += count
        self.receivers[target] += count

    def most(self):
        """(send, receive) comms of the process that has the most of both."""
        processes = set(self.senders) | set(self.receivers)
        return max(((self.senders[one], self.receivers[one]) for one in processes), key=sum,
                   default=(0, 0))

    def of_node(self):
        """The same of the node that has the most."""
        nodes = collections.defaultdict(lambda: [0, 0])
        for side, counter in enumerate((self.senders, self.receivers)):
            for (node, _), count in counter.items():
                nodes[node][side] += count
        return max((tuple(pair) for pair in nodes.values()), key=sum, default=(0, 0))

    def __add__(self, other):
        return Ends(self.senders + other.senders, self.receivers + other.receivers)


def rings(cluster):
    """Node n sends to node n + 1 in each channel, over the channel's rail at both nodes."""
    ends = Ends()
    for channel in range(cluster.channels if cluster.nodes > 1 else 0):
        rail = channel % cluster.gpus
        for node in range(cluster.nodes):
            ends.add((node, rail), ((node + 1) % cluster.nodes, rail))
    return ends


def binary_tree_parent(nodes, node):
    """Of the tree with root 0 in which leaves and inner nodes alternate (graph/trees.cc, ncclGetBtree):
    with b the lowest bit that is set, the parent has it cleared and the next one set, or, beyond the last
    node, only cleared. None for the root."""
    if node == 0:
        return None
    bit = node & -node
    parent = (node ^ bit) | (bit << 1)
    return parent if parent < nodes else node ^ bit


def double_tree_parents(nodes, node):
    """Of both trees: the second is the mirror image of the first, or, for an odd number of nodes, the first
    moved on by one (ncclGetDtree)."""
    if nodes % 2 == 0:
        mirrored = binary_tree_parent(nodes, nodes - 1 - node)
        second = None if mirrored is None else nodes - 1 - mirrored
    else:
        moved = binary_tree_parent(nodes, (node - 1) % nodes)
        second = None if moved is None else (moved + 1) % nodes
    return binary_tree_parent(nodes, node), second


def trees(cluster):
    """A connection up for the reduction and one down for the broadcast of each edge: half of the channels
    have the first tree, the others the second (graph/connect.cc, connectTrees)."""
    ends = Ends()
    # How many channels have a tree on a rail.
    on_rail = collections.Counter((0 if channel < cluster.channels / 2 else 1, channel % cluster.gpus)
                                  for channel in range(cluster.channels))
    for node in range(cluster.nodes):
        parents = double_tree_parents(cluster.nodes, node)
        for (tree, rail), count in on_rail.items():
            if parents[tree] is not None:
                ends.add((node, rail), (parents[tree], rail), count)
                ends.add((parents[tree], rail), (node, rail), count)
    return ends


def channels_per_peer(cluster):
    """Of a remote peer whose rail one port drives (graph/paths.cc, ncclTopoGetNchannels)."""
    channels = 2
    while channels * cluster.ranks > cluster.p2p_channels * 4 and channels > 1:
        channels //= 2
    return channels


def alltoall(cluster, through_gpus):
    """Every rank with every rank of other nodes. With PXN a rank hands what it sends to the GPU of its node
    that is on the target's rail. The sources of a node that send to one target over one channel then share
    a connection (transport/net.cc, sendProxyConnect); those of one batch of rounds have the same channel
    (channel.h, ncclP2pChannelBaseForRound). Nodes are alike, so one stands for all."""
    others = cluster.nodes - 1
    parts = channels_per_peer(cluster)
    ends = Ends()
    if others == 0:
        return ends
    for local in range(cluster.gpus):
        if through_gpus:
            batches = {((local - source) % cluster.gpus) // P2P_BATCH for source in range(cluster.gpus)}
            peers = others * len(batches)
        else:
            peers = others * cluster.gpus
        ends.senders[(0, local)] += peers * parts
        ends.receivers[(0, local)] += peers * parts
    return ends

#!/usr/bin/env python3
"""Trains a small model with PyTorch's DistributedDataParallel and checks every gradient.

Each step, the gradients that DDP has averaged over the ranks must equal, to rounding, those that
this rank computes alone from all ranks' data, and must be the same bits on every rank.

    nccl-tests-config/launch/torchrun --gpus 2 --set NCCL_DEBUG=INFO -- --one-host

Exit code 0 when all gradients agree.
"""

import argparse
import ctypes
import hashlib
import os
import sys
import time

_BATCH = 16  # samples a rank and step
_TOLERANCE = 1e-9  # relative; float64 sums in another order differ by about 1e-15


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--width", type=int, default=1024,
                        help="width of the hidden layers; gradients are about 16 B x width^2")
    parser.add_argument("--backend", choices=["nccl", "gloo"], default="nccl",
                        help="gloo trains on the CPU, to try the script itself")
    parser.add_argument("--one-host", action="store_true",
                        help="make the ranks of this host use the network, as if on several hosts")
    return parser.parse_args()


def isolate_ranks(rank):
    os.environ.update(NCCL_HOSTID=f"one-host-rank-{rank}", NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1",
                      NCCL_NVLS_ENABLE="0")


def make_model(width, device):
    torch.manual_seed(1)
    layers = [torch.nn.Linear(32, width), torch.nn.Tanh(), torch.nn.Linear(width, width),
              torch.nn.Tanh(), torch.nn.Linear(width, width), torch.nn.Tanh(),
              torch.nn.Linear(width, 1)]
    return torch.nn.Sequential(*layers).double().to(device)


def backward(model, inputs):
    model.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True).sin()).backward()


def gradients(model):
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def same_everywhere(store, step, rank, world, values):
    """Compares digests over the rendezvous store, so not over the transport that is checked."""
    values = values.cpu().contiguous()
    octets = ctypes.string_at(values.data_ptr(), values.numel() * values.element_size())
    mine = hashlib.sha256(octets).hexdigest()
    store.set(f"gradients-{step}-{rank}", mine)
    return all(store.get(f"gradients-{step}-{r}").decode() == mine for r in range(world))


def train(options, store, rank, world, device):
    """Returns the number of steps whose gradients were wrong, and the largest deviation."""
    alone = make_model(options.width, device)
    together = torch.nn.parallel.DistributedDataParallel(
        make_model(options.width, device), device_ids=[device] if device.type == "cuda" else None)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.01) for model in (alone, together)]
    data = torch.Generator().manual_seed(2)
    wrong, worst = 0, 0.0
    for step in range(options.steps):
        inputs = torch.randn(world * _BATCH, 32, generator=data, dtype=torch.float64).to(device)
        backward(alone, inputs)
        start = time.perf_counter()
        backward(together, inputs[rank * _BATCH:(rank + 1) * _BATCH])
        averaged, expected = gradients(together), gradients(alone)
        deviation = ((averaged - expected).abs().max() / expected.abs().max()).item()
        seconds = time.perf_counter() - start
        same = same_everywhere(store, step, rank, world, averaged)
        right = deviation <= _TOLERANCE and same  # a NaN compares as wrong
        wrong += not right
        worst = max(worst, deviation)
        if rank == 0 or not right:
            print(f"rank {rank} step {step}: {averaged.numel()} gradients, deviation "
                  f"{deviation:.1e}, {'same' if same else 'DIFFERENT'} on all ranks, "
                  f"{seconds * 1e3:.1f} ms", flush=True)
        for optimizer in optimizers:
            optimizer.step()
    return wrong, worst


def main():
    options = parse_options()
    # Behind the options, so that --help needs no PyTorch.
    global torch, dist
    import torch
    import torch.distributed as dist
    if "RANK" not in os.environ:
        sys.exit("ddp_allreduce: start me by torchrun, e.g. torchrun --nproc-per-node 2 "
                 "ddp_allreduce.py")
    if options.one_host:
        isolate_ranks(os.environ["RANK"])
    device = torch.device("cpu")
    if options.backend == "nccl":
        # More ranks than GPUs share them, which NCCL allows only with --one-host.
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    store, rank, world = next(dist.rendezvous("env://"))
    dist.init_process_group(options.backend, store=dist.PrefixStore("group", store), rank=rank,
                            world_size=world)
    wrong, worst = train(options, dist.PrefixStore("check", store), rank, world, device)
    dist.barrier()
    dist.destroy_process_group()
    print(f"rank {rank} of {world}: {wrong} of {options.steps} steps wrong, largest deviation "
          f"{worst:.1e}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

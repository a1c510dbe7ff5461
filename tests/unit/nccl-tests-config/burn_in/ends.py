"""Rails for the tests, of a machine that does not exist."""

import paths  # noqa: F401  (sets the module path)
from burn_in.rails import End, Rail


def end(number, **fields):
    """Host memory at the port of rail `number`."""
    given = {"gbits": 400.0, "model": "0x15b3 0x1021", "fabric": "Ethernet", **fields}
    return End(rail=number, hca=f"mlx5_{number}", port=1, device=number, **given)


def rail(number, gpus=(), **fields):
    """A rail and its GPUs, which have CUDA's number behind their own."""
    own = [{"gpu": gpu, "gpu_address": f"0000:{gpu:02x}:00.0", "cuda": gpu, "path": "PIX"}
           for gpu in gpus]
    return Rail(end(number, **fields), [end(number, **fields, **gpu) for gpu in own])

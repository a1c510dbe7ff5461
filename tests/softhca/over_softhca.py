"""What the tests share that run programs over software HCAs."""

import json
import os
import socket


def environment(libraries, config, **settings):
    """This process's, with folders of libraries, a configuration of software HCAs on a fabric of their own, and
    no settings for NCCL but these. Requests complete later than they are posted, and queue pairs overtake each
    other, as over HCAs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "GDR_NCCL_"))}
    config = {"fabric": f"test-{os.getpid()}", "reorder_us": 20} | config
    return kept | {"LD_LIBRARY_PATH": ":".join(map(str, libraries)), "SOFTHCA_CONFIG": json.dumps(config),
                   "NCCL_DEBUG": "INFO"} | settings


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"

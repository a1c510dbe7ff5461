#!/usr/bin/env python3
"""Tests of connections whose handshake socket passes a proxy, as a sidecar's, over software HCAs.

kept_socket_test.py TOOL PLUGIN SOFTHCA_FOLDER [unittest arguments]
"""

import errno
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from over_softhca import environment, free_address

TIMEOUT_S = 60
TOOL, PLUGIN, SOFTHCA = sys.argv[1:4]
# transport/wire/wire.h
HANDLE = struct.Struct("<4sHH")  # with the port last
HEADER = struct.Struct("<4sHBBI")
REPLY = 2
PORT_IN_END_POINT = 110
CONNECTIONS = 4  # of the two ranks
AT_ONCE = struct.pack("ii", 1, 0)


def connect(address):
    """Once somebody listens there."""
    while True:
        try:
            return socket.create_connection(address)
        except ConnectionRefusedError:
            time.sleep(0.05)


class Proxy:
    """Forwards the connections of ranks, whose handles name its own ports in place of those of the listeners."""

    def __init__(self):
        self.listeners = {}  # by the port that is stood for
        self.open = []
        self.refuses = False
        self.lock = threading.Lock()

    def port_for(self, target):
        with self.lock:
            if target not in self.listeners and target not in (one.getsockname()[1] for one in self.listeners.values()):
                self.listeners[target] = socket.create_server(("127.0.0.1", 0))
                threading.Thread(target=self.accept, args=(target,), daemon=True).start()
            return self.listeners[target].getsockname()[1] if target in self.listeners else target

    def accept(self, target):
        while True:
            client = self.listeners[target].accept()[0]
            if self.refuses:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", target))
            self.open.append((client, server))
            threading.Thread(target=self.forward, args=(client, server, lambda data: data), daemon=True).start()
            threading.Thread(target=self.forward, args=(server, client, self.redirect_reply), daemon=True).start()

    def forward(self, source, sink, change):
        source.settimeout(0.1)  # a socket that is closed stays open for as long as another thread reads it
        try:
            while True:
                try:
                    data = source.recv(1 << 16)
                except TimeoutError:
                    continue
                if not data:
                    return sink.shutdown(socket.SHUT_WR)
                sink.sendall(change(data))
        except OSError:
            pass

    def redirect_reply(self, data):
        """Whoever connects to the process later passes the proxy as well."""
        if len(data) < HEADER.size or HEADER.unpack_from(data)[2] != REPLY:
            return data
        at = HEADER.size + PORT_IN_END_POINT
        (port,) = struct.unpack_from("<H", data, at)
        return data[:at] + struct.pack("<H", self.port_for(port)) + data[at + 2:]

    def redirect_handles(self, data):
        found = data.find(b"GDRG")
        while found >= 0:
            fields = list(HANDLE.unpack_from(data, found))
            fields[-1] = self.port_for(fields[-1])
            data = data[:found] + HANDLE.pack(*fields) + data[found + HANDLE.size:]
            found = data.find(b"GDRG", found + HANDLE.size)
        return data

    def serve_control(self, root):
        """Returns the address at which a rank has to look for rank 0, so that it gets other handles."""
        listener = socket.create_server(("127.0.0.1", 0))

        def serve():
            client = listener.accept()[0]
            server = connect(root)
            threading.Thread(target=self.forward, args=(client, server, self.redirect_handles), daemon=True).start()
            self.forward(server, client, self.redirect_handles)

        threading.Thread(target=serve, daemon=True).start()
        return "127.0.0.1:%d" % listener.getsockname()[1]

    def cut(self, reset=False, sides=(0, 1)):
        cut, self.open = self.open, []
        for pair in cut:
            for side in sides:
                if reset:
                    pair[side].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
                else:
                    try:
                        pair[side].shutdown(socket.SHUT_RDWR)
                    except OSError as error:
                        # A quick rank closed its socket when the first side of the pair was shut down.
                        if error.errno != errno.ENOTCONN:
                            raise
                pair[side].close()
        return len(cut)


class KeptSocket(unittest.TestCase):
    def start(self, rank, root):
        log = open(f"{self.folder}/rank{rank}", "w+", encoding="utf-8")
        self.addCleanup(log.close)
        command = [TOOL, "perf", "all_reduce", "--ranks", "2", "--root", root, "--rank", str(rank), "--plugin", PLUGIN,
                   "--dev", "0", "--begin", "64K", "--end", "64K", "--until", f"{self.folder}/until"]
        config = {"fabric": self.folder.rsplit("/", maxsplit=1)[-1], "devices": [{"name": "mlx5_0"}, {"name": "mlx5_1"}]}
        process = subprocess.Popen(command, env=environment([SOFTHCA], config, NCCL_SOCKET_IFNAME="lo",
                                                                      NCCL_DEBUG_SUBSYS="INIT,NET"),
                                   stdout=log, stderr=subprocess.STDOUT)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start_both(self, proxy):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        root = free_address()
        host, port = root.split(":")
        ranks = [self.start(0, root)]
        ranks.append(self.start(1, proxy.serve_control((host, int(port))) if proxy else root))
        self.wait_for(lambda: "float32" in self.log(0), "the ranks run")
        time.sleep(1)
        return ranks

    def log(self, rank):
        return pathlib.Path(f"{self.folder}/rank{rank}").read_text(encoding="utf-8")

    def wait_for(self, ready, what):
        limit = time.monotonic() + TIMEOUT_S
        while not ready():
            self.assertLess(time.monotonic(), limit, what + "\n" + self.log(0) + self.log(1))
            time.sleep(0.05)

    def opened_again(self):
        return [self.log(rank).count("the handshake socket is open again") for rank in (0, 1)]

    def finish(self, ranks):
        pathlib.Path(f"{self.folder}/until").touch()
        for rank, process in enumerate(ranks):
            process.wait(timeout=TIMEOUT_S)
            self.assertEqual(process.returncode, 0, self.log(rank))
            self.assertNotIn(" ended", self.log(rank))

    def test_closed_sockets_are_opened_again(self):
        for name, cut in (("FIN", {}), ("RST", {"reset": True}), ("RST to the sender", {"reset": True, "sides": (0,)})):
            with self.subTest(name):
                proxy = Proxy()
                ranks = self.start_both(proxy)
                self.assertEqual(proxy.cut(**cut), CONNECTIONS)
                self.wait_for(lambda: self.opened_again() == [CONNECTIONS] * 2, name)
                self.finish(ranks)

    def test_proxy_restarts(self):
        proxy = Proxy()
        ranks = self.start_both(proxy)
        proxy.refuses = True
        proxy.cut()
        self.wait_for(lambda: "the handshake socket is lost" in self.log(0), "a warning")
        proxy.refuses = False
        self.wait_for(lambda: self.opened_again() == [CONNECTIONS] * 2, "the proxy is back")
        self.finish(ranks)

    def test_killed_process_is_found_within_two_seconds(self):
        for _ in range(5):
            ranks = self.start_both(None)
            killed = time.monotonic()
            ranks[1].send_signal(signal.SIGKILL)
            ranks[1].wait()
            ranks[0].wait(timeout=TIMEOUT_S)
            self.assertLess(time.monotonic() - killed, 10)  # on a slow machine
            self.assertNotEqual(ranks[0].returncode, 0)
            if "rank 1 has ended (at:" not in self.log(0):
                break  # otherwise the program itself saw it, between two all-reduces
        self.assertRegex(self.log(0), r"a connection to the peer's process \(127.0.0.1:\d+\) is refused")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)

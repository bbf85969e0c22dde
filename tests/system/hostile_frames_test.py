"""Clients whose HTTP/2 is nearly right, on every port: the daemon outlives them, answers others
meanwhile, and keeps nothing of them.

The frames come from a seed (LODGEKV_SEED), which a failure names.
"""

import contextlib
import random

import daemon
import http2_client as http2
import nearly_http2
import system_test

CONNECTIONS = 600 // daemon.SLOWER
QUIET_SECONDS = 0.02 * daemon.SLOWER  # after which nothing more is awaited
MOST = 64 * daemon.MIB  # that they may leave behind


def kinds_of(received):
    at = 0
    while at + 9 <= len(received):
        yield received[at + 3]
        at += 9 + int.from_bytes(received[at:at + 3], "big")


class HostileFramesTest(system_test.SystemTest):
    def setUp(self):
        super().setUp()
        self.health = f"127.0.0.1:{daemon.free_port()}"
        self.random = random.Random(f"{system_test.SEED} frames")
        self.frames = nearly_http2.NearlyHttp2(self.random)

    def connect_once(self, address):
        """The number of answers. The other side may end the connection at any byte; ours waits, as
        a connection that is reset takes with it what the other side has not read yet."""
        content = self.frames.connection()
        at, size = 0, self.random.choice((len(content), len(content), 1000, 50))
        received = b""
        with contextlib.suppress(OSError), contextlib.closing(
                http2.connect(address, seconds=QUIET_SECONDS)) as sock:
            while at < len(content):
                sock.sendall(content[at:at + size])
                at += size
            while piece := sock.recv(1 << 16):
                received += piece
        return sum(kind == http2.HEADERS for kind in kinds_of(received))

    def test_the_daemon_outlives_them(self):
        # Without the limits that would keep this one address out.
        with daemon.Daemon(self.folder(), engine="dram", health_listen=self.health,
                           max_offences_per_peer=0, max_connection_rate_per_peer=0) as server:
            ports = (server.server, server.server, server.admin, self.health)
            answers = 0
            for number in range(CONNECTIONS):
                answers += self.connect_once(self.random.choice(ports))
                if number == CONNECTIONS // 10:
                    before = server.memory()
                if number % 50 == 0:
                    with self.subTest(seed=system_test.SEED, connections=number):
                        server.ask("put", "key", number)
                        self.assertEqual(server.ask("get", "key").decode().strip(), str(number))
            print(f"{answers} answers to {CONNECTIONS} connections", flush=True)
            self.assertGreater(answers, CONNECTIONS, "so wrong that they do not get far")
            if not daemon.SANITIZED:
                self.assertLess(server.memory(), before + MOST)
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    system_test.main()

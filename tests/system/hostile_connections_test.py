"""Clients that mean no good, on every port: what they may take, and that others are served.

Memory is read from /proc/PID/status, in MiB, of a daemon that has served a little before.
"""

import contextlib
import itertools
import os
import pathlib
import resource
import select
import signal
import socket
import stat
import time
import unittest

import certificates
import daemon
import http2_client as http2
import metrics_page
import system_test

PUT = "/lodgekv.v1.KvService/Put"
CHECK = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"
MIB = daemon.MIB
MOST_MIB = 40  # that an attack which is to be cut at once may add


class LimitedDaemon(daemon.Daemon):
    """With so many file descriptors."""

    def __init__(self, workdir, descriptors, **flags):
        super().__init__(workdir, **flags)
        self.descriptors = descriptors

    def command(self):
        return ["prlimit", f"--nofile={self.descriptors}:{self.descriptors}", *super().command()]


class HostileTest(system_test.SystemTest):
    def serve(self, descriptors=None, **flags):
        workdir = self.folder()
        self.health = f"127.0.0.1:{daemon.free_port()}"
        self.metrics = f"127.0.0.1:{daemon.free_port()}"
        flags = {"engine": "dram", "health_listen": self.health,
                 "metrics_listen": self.metrics} | flags
        server = (daemon.Daemon(workdir, **flags) if descriptors is None
                  else LimitedDaemon(workdir, descriptors, **flags))
        self.enterContext(server)
        server.ask("put", "warm", "up")
        return server

    def address(self, server, port):
        return {"data": server.server, "admin": server.admin, "health": self.health}[port]

    def metric(self, name, **labels):
        return metrics_page.read(self.metrics).value(f"lodgekv_{name}", **labels)

    def await_metric(self, least, name, **labels):
        deadline = time.monotonic() + 10
        while (value := self.metric(name, **labels)) < least:
            self.assertLess(time.monotonic(), deadline, f"{name} is {value}")
            time.sleep(0.05)

    def assert_served(self, server):
        """And at once, by a client that has no connection yet."""
        begin = time.monotonic()
        server.ask("put", "served", "yes")
        self.assertLess(time.monotonic() - begin, 2 * daemon.SLOWER)

    @contextlib.contextmanager
    def at_most(self, server, more):
        """The most memory within adds no more than that."""
        before = server.memory()
        # Resets the kernel's peak value.
        pathlib.Path(f"/proc/{server.process.pid}/clear_refs").write_text("5")
        yield
        most, after = server.memory("VmHWM"), server.memory()
        print(f"{self.id().rsplit('.', 1)[1]}: {before / MIB:.0f} MiB before, {most / MIB:.0f} at "
              f"most, {after / MIB:.0f} after", flush=True)
        if not daemon.SANITIZED:
            self.assertLess((most - before) / MIB, more)

    def connect_bare(self, address, count, source="127.0.0.1"):
        """So many connections that say nothing; those that were let in, to be closed."""
        host, port = address.rsplit(":", 1)
        bare = []
        for _ in range(count):
            sock = self.enterContext(socket.socket())
            sock.bind((source, 0))
            sock.settimeout(10)
            with contextlib.suppress(OSError):
                sock.connect((host, int(port)))
                bare.append(sock)
        return bare

    @staticmethod
    def is_closed(sock, seconds=0.0):
        sock.settimeout(max(seconds, 0.001))
        try:
            while data := sock.recv(65_536):
                del data
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    # --- descriptors and numbers of connections ---

    def test_more_silent_connections_than_descriptors(self):
        server = self.serve(descriptors=1_024, max_connection_rate_per_peer=0)
        self.assertIn("too few file descriptors for max_connections", server.log.read_text())
        for port in ("data", "admin", "health"):
            self.connect_bare(self.address(server, port), 1_100)
            time.sleep(0.5)  # long enough for a silent client
            self.connect_bare(self.address(server, port), 200)
            self.assert_served(server)
        self.assertTrue(server.is_serving())
        with http2.Client(self.health) as probe:
            self.assertTrue(probe.call(CHECK))
        self.assertGreater(self.metric("connections_ended_total", port="data", reason="made_room"),
                           100)
        self.assertEqual(server.stop(), 0, server.tail())

    def test_connections_one_after_another(self):
        server = self.serve(descriptors=1_024)
        host, port = server.server.rsplit(":", 1)
        for _ in range(4_500):
            socket.create_connection((host, int(port)), 10).close()
        # Until the server has noticed that they are closed, they take up all
        # descriptors, and one more is refused.
        deadline = time.monotonic() + 10
        while self.metric("connections", port="data") > 0:
            self.assertLess(time.monotonic(), deadline, "closed connections are still counted")
            time.sleep(0.1)
        self.assert_served(server)
        self.assertLess(len(os.listdir(f"/proc/{server.process.pid}/fd")), 100)

    def test_no_descriptor_at_all(self):
        server = self.serve(descriptors=1_024)
        with http2.Client(self.health) as watcher:
            self.assertTrue(watcher.call(CHECK))
            pid = server.process.pid
            time.sleep(0.5)  # so that nothing of the client before is left
            used = set(map(int, os.listdir(f"/proc/{pid}/fd")))
            first_free = next(number for number in itertools.count() if number not in used)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (first_free, 1_024))
            cpu_before = self.cpu_seconds(pid)
            begin = time.monotonic()
            refused = 0
            while time.monotonic() - begin < 3:
                with socket.create_connection(self.split(server.server), 10) as sock:
                    refused += self.is_closed(sock, 1)
                time.sleep(0.05)
            self.assertGreater(refused, 5, server.tail())
            self.assertLess(self.cpu_seconds(pid) - cpu_before, 1, "accepting spins")
            self.assertIn("health answers NOT_SERVING", server.log.read_text())
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (1_024, 1_024))
            self.await_log(server, "connections are accepted again")
        self.assert_served(server)
        self.assertGreater(self.metric("accept_failures_total", reason="descriptors"), 5)
        self.assertGreater(
            self.metric("connections_refused_total", port="data", reason="descriptors"), 5)

    @staticmethod
    def split(address):
        host, port = address.rsplit(":", 1)
        return host, int(port)

    @staticmethod
    def cpu_seconds(pid):
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def await_log(self, server, text, seconds=10):
        deadline = time.monotonic() + seconds
        while text not in server.log.read_text():
            self.assertLess(time.monotonic(), deadline, f"no '{text}' in:\n{server.tail()}")
            time.sleep(0.02)

    def let_in(self, server, source, most):
        """Clients from that address, each of which asked; as many as are let in."""
        clients = []
        with contextlib.suppress(OSError):  # who is refused
            while len(clients) < most:
                client = self.enterContext(http2.Client(server.server, source))
                if not client.call(CHECK):
                    break
                clients.append(client)
        time.sleep(0.3)  # so that the door has seen them ask
        return clients

    def test_limits_of_all_and_of_one_address(self):
        server = self.serve(max_connections=8, max_connections_per_peer=5)
        clients = self.let_in(server, "127.0.0.2", 7)
        self.assertEqual(len(clients), 5, "max_connections_per_peer")
        clients += self.let_in(server, "127.0.0.3", 5)
        self.assertIn(len(clients), (7, 8), "max_connections")  # one may be left of the start
        self.assertEqual(self.metric("connections_refused_total", port="data", reason="peer"), 1)
        self.assertEqual(self.metric("connections_refused_total", port="data", reason="all"), 1)
        self.assertEqual(self.metric("connections_limit", port="data"), 8)
        clients.pop().close()
        deadline = time.monotonic() + 1
        while not self.is_let_in(server):
            self.assertLess(time.monotonic(), deadline, "no room though one has gone")
        for client in clients:
            self.assertIsNone(client.ended, "who asks was ended")

    @staticmethod
    def is_let_in(server):
        with contextlib.suppress(OSError), http2.Client(server.server) as client:
            return client.call(CHECK)
        return False

    # --- floods ---

    def reset_streams(self, address, path, seconds=6):
        """As fast as the server takes them; how many, and whether it ended that."""
        sent, begin = 0, time.monotonic()
        with http2.Client(address) as client:
            block = http2.request_headers(path)
            while time.monotonic() - begin < seconds and sent < 150_000:
                batch = b""
                for _ in range(100):
                    stream = next(client.streams)
                    batch += http2.frame(http2.HEADERS, http2.END_HEADERS, stream, block)
                    batch += http2.reset(stream)
                if not client.try_send(batch):
                    break
                sent += 100
            client.wait(lambda: False, 1)
            return sent, client.ended is not None

    def test_rapid_reset(self):
        server = self.serve()
        for port in ("data", "admin", "health"):
            for path in ("/no.such/Method", CHECK, PUT):
                with self.subTest(port=port, path=path), self.at_most(server, MOST_MIB * 2):
                    sent, ended = self.reset_streams(self.address(server, port), path)
                    self.assertTrue(ended, f"after {sent} resets")
                    self.assertLess(sent, 60_000)
            self.assertGreater(self.metric("connections_ended_total", port=port, reason="resets"),
                               2)
        self.assert_served(server)

    def test_calls_taken_back_now_and_then(self):
        server = self.serve()
        with http2.Client(server.server) as client:
            for _ in range(300):
                stream = client.start_call(PUT)
                client.send(http2.reset(stream))
                time.sleep(0.005)
            self.assertTrue(client.call(PUT))

    def flood(self, address, first, more, source=None):
        """A block of headers that does not end; how much of it went out, and whether it ended."""
        sent, begin = 0, time.monotonic()
        with http2.Client(address, source, acknowledge=False) as client:
            client.try_send(http2.frame(http2.HEADERS, 0, next(client.streams), first))
            while time.monotonic() - begin < 6 and client.try_send(more):
                sent += len(more)
            client.wait(lambda: False, 1)
            return sent, client.ended is not None

    def test_continuation_flood(self):
        server = self.serve()
        for port in ("data", "admin", "health"):
            with self.subTest(port=port), self.at_most(server, MOST_MIB):
                sent, ended = self.flood(self.address(server, port), http2.request_headers(PUT),
                                         self.HEADERS_WITHOUT_END)
                self.assertTrue(ended, f"after {sent} bytes")
            self.assert_served(server)

    def test_floods_from_the_first_byte_on(self):
        """gRPC reads them at once, in whatever thread hands it the connection."""
        server = self.serve(max_offences_per_peer=0)
        for _ in range(100):
            begin = time.monotonic()
            sent, ended = self.flood(server.server, http2.request_headers(PUT),
                                     self.HEADERS_WITHOUT_END)
            self.assertTrue(ended, f"after {sent} bytes in {time.monotonic() - begin} s")
            self.assertLess(sent, 512 << 20)
        self.assert_served(server)

    ONE_HEADER = http2.request_headers(PUT) + b"\x00\x03x-a" + http2.integer(64 << 20)

    def test_one_header_without_end(self):
        server = self.serve()
        block = http2.frame(http2.CONTINUATION, 0, 1, b"a" * 16_000)
        for number, port in enumerate(("data", "admin", "health"), 1):
            with self.subTest(port=port), self.at_most(server, MOST_MIB):
                sent, ended = self.flood(self.address(server, port), self.ONE_HEADER, block)
                self.assertTrue(ended, f"after {sent} bytes")
            self.assert_served(server)
            self.assertEqual(self.metric("header_blocks_too_large_total"), number)

    def test_one_header_in_the_smallest_pieces(self):
        """gRPC alone copies all that it has for each of them: it would be busy for a minute."""
        server = self.serve()
        large = http2.frame(http2.CONTINUATION, 0, 1, b"a" * 16_000)
        small = http2.frame(http2.CONTINUATION, 0, 1, b"a")
        with http2.Client(server.server, acknowledge=False) as client:
            client.try_send(http2.frame(http2.HEADERS, 0, next(client.streams), self.ONE_HEADER))
            client.try_send(large * 500)
            client.try_send(small * 20_000)
            self.assert_served(server)
            self.await_metric(1, "header_blocks_too_large_total")

    def call_with(self, client, block, pieces):
        """A call with so much more in its block of headers, in so many frames after the first."""
        stream, size = client.open_stream(), -(-len(block) // pieces)
        client.try_send(http2.frame(http2.HEADERS, http2.END_STREAM, stream,
                                    http2.request_headers(PUT)))
        for at in range(0, len(block), size):
            flags = http2.END_HEADERS if at + size >= len(block) else 0
            client.try_send(http2.frame(http2.CONTINUATION, flags, stream, block[at:at + size]))
        client.wait(lambda: stream not in client.windows)
        return stream not in client.windows

    def test_large_blocks_of_headers_that_end(self):
        server = self.serve()
        with http2.Client(server.server) as client:
            for pieces in (1, 20, 150):
                self.assertTrue(self.call_with(client, http2.header(b"x-a", b"a" * 7_000), pieces))
            self.assertIsNone(client.ended)
        for pieces in (2, 4, 40):
            with http2.Client(server.server) as client:  # gRPC may end it after its refusal
                block = http2.header(b"x-a", b"a" * 10_000) * 3
                self.assertTrue(self.call_with(client, block, pieces), "refused, with an answer")
        self.assertEqual(self.metric("header_blocks_too_large_total"), 0)
        with http2.Client(server.server) as client:
            self.assertTrue(self.call_with(client, http2.header(b"x-a", b"a" * 70_000), 5))
            client.wait(lambda: False)
            self.assertIsNotNone(client.ended)
        self.assert_served(server)
        self.assertEqual(self.metric("header_blocks_too_large_total"), 1)

    def flood_with(self, address, one, first=b"", **options):
        """Until the server ends the connection."""
        with http2.Client(address, **options) as client:
            client.send(first)
            begin = time.monotonic()
            while client.try_send(one * 5_000):
                self.assertLess(time.monotonic() - begin, 20 * daemon.SLOWER)

    def test_frames_of_no_request(self):
        """gRPC processes each at once, and nobody else meanwhile."""
        server = self.serve(max_offences_per_peer=0)
        call = http2.frame(http2.HEADERS, http2.END_HEADERS, 1, http2.request_headers(PUT))
        floods = [(one, b"") for one in http2.FRAMES_OF_NO_REQUEST.values()]
        floods += [(http2.frame(http2.DATA, 0, 1), call),
                   (http2.frame(http2.CONTINUATION, 0, 1),
                    http2.frame(http2.HEADERS, 0, 1, http2.request_headers(PUT)))]
        for number, (one, first) in enumerate(floods, 1):
            with self.subTest(frame=one), self.at_most(server, MOST_MIB):
                self.flood_with(server.server, one, first)
                self.await_metric(number, "connections_ended_total", port="data", reason="frames")
            self.assert_served(server)
        for port in ("admin", "health"):
            self.flood_with(self.address(server, port), one=http2.FRAMES_OF_NO_REQUEST["farewells"])
            self.await_metric(1, "connections_ended_total", port=port, reason="frames")

    def test_a_flood_of_frames_is_an_offence(self):
        server = self.serve(max_offences_per_peer=2, offence_forgiven_after="1h")
        for _ in range(2):
            self.flood_with(server.server, http2.FRAMES_OF_NO_REQUEST["priorities"],
                            source="127.0.0.3")
        self.await_metric(2, "connections_ended_total", port="data", reason="frames")
        with self.assertRaises(OSError), http2.Client(server.server, "127.0.0.3") as client:
            client.await_acknowledgement()
        self.assertEqual(self.metric("connections_refused_total", port="data", reason="offences"),
                         1)
        self.assert_served(server)

    def test_fewer_frames_of_no_request_are_taken(self):
        server = self.serve()
        with http2.Client(server.server) as client:
            updates = http2.FRAMES_OF_NO_REQUEST["window updates"] * 1_000
            for _ in range(90):
                client.send(updates)
            self.assertTrue(client.call(CHECK))
        self.assertEqual(self.metric("connections_ended_total", port="data", reason="frames"), 0)

    def test_bytes_that_are_no_http2(self):
        """gRPC refuses them itself; what is held meanwhile stays small."""
        server = self.serve()
        with self.at_most(server, MOST_MIB), http2.connect(server.server) as sock:
            with self.assertRaises(OSError):
                for _ in range(1_000):
                    sock.sendall(b"x" * 65_536)

    def test_messages_announced_and_not_finished(self):
        server = self.serve(max_unfinished_size="32MiB")
        with self.at_most(server, 32 + MOST_MIB * 2), http2.Client(server.server) as client:
            streams = [client.start_call(PUT) for _ in range(min(120, client.max_streams))]
            for stream in streams:
                client.send(http2.frame(http2.DATA, 0, stream, http2.announced(5 << 20)))
            left = dict.fromkeys(streams, (5 << 20) - 1)
            deadline = time.monotonic() + 20
            while client.ended is None and time.monotonic() < deadline:
                moved = 0
                for stream in streams:
                    sent = client.send_data(stream, left[stream])
                    left[stream] -= sent
                    moved += sent
                if moved == 0:
                    client.wait(lambda: False, 0.005)
            self.assertIsNotNone(client.ended, f"{len(streams)} streams, {sum(left.values())} left")
        self.assert_served(server)
        self.assertEqual(self.metric("connections_ended_total", port="data", reason="unfinished"),
                         1)

    # --- reconnecting clients ---

    HEADERS_WITHOUT_END = http2.frame(http2.CONTINUATION, 0, 1,
                                      http2.header(b"x-a", b"a" * 3_000) * 5) * 16

    def offend(self, server, source, times):
        for _ in range(times):
            _, ended = self.flood(server.server, http2.request_headers(PUT),
                                  self.HEADERS_WITHOUT_END, source)
            self.assertTrue(ended)

    def is_let_in_from(self, address, source):
        with contextlib.suppress(OSError), http2.Client(address, source) as client:
            return client.call(CHECK)
        return False

    def await_let_in(self, address):
        """There may be no room until those before are gone."""
        deadline = time.monotonic() + 10
        while not self.is_let_in_from(address, "127.0.0.1"):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_who_offends_too_often_is_not_let_in_for_a_while(self):
        server = self.serve(max_offences_per_peer=3, offence_forgiven_after="4s")
        with http2.Client(server.server, "127.0.0.2") as neighbour:
            self.offend(server, "127.0.0.2", 3)
            barred = time.monotonic()
            for _ in range(20):
                self.assertFalse(self.is_let_in_from(server.server, "127.0.0.2"), server.tail())
            self.assertTrue(neighbour.call(CHECK), "what its address had open goes on")
            self.assertTrue(self.is_let_in_from(server.server, "127.0.0.3"), "others come in")
            self.assertTrue(self.is_let_in_from(self.health, "127.0.0.2"), "of that port alone")
            self.assertTrue(self.is_let_in_from(server.admin, "127.0.0.2"), "of that port alone")
            self.assertLess(time.monotonic() - barred, 4, "too slow to have seen it")
        self.assert_served(server)
        self.assertGreaterEqual(
            self.metric("connections_refused_total", port="data", reason="offences"), 20)
        line = next(line for line in server.log.read_text().splitlines()
                    if "a peer is refused" in line)
        self.assertIn("peer=127.0.0.2", line)
        self.assertRegex(line, r"again_in_ms=[1-4]\d\d\d ")
        while not self.is_let_in_from(server.server, "127.0.0.2"):
            self.assertLess(time.monotonic() - barred, 8, "not let in again")
            time.sleep(0.1)
        self.offend(server, "127.0.0.2", 1)
        self.assertFalse(self.is_let_in_from(server.server, "127.0.0.2"), "one was forgiven")

    def test_none_is_barred_where_that_is_switched_off(self):
        server = self.serve(max_offences_per_peer=0)
        self.offend(server, "127.0.0.2", 8)
        self.assertTrue(self.is_let_in_from(server.server, "127.0.0.2"))

    def test_who_only_comes_and_goes_is_no_offender(self):
        server = self.serve(max_offences_per_peer=1, offence_forgiven_after="60m",
                            message_timeout="1s")
        for address in (server.server, server.admin, self.health):
            for _ in range(100):
                http2.connect(address).close()
            for _ in range(100):
                with http2.connect(address) as sock:
                    sock.sendall(http2.PREFACE)
            for _ in range(30):
                self.await_let_in(address)
        with http2.Client(server.server) as stalled:
            stalled.start_call(PUT)
            stalled.wait(lambda: False, 4)
            self.assertIsNotNone(stalled.ended)
        self.await_let_in(server.server)
        for port in ("data", "admin", "health"):
            self.assertEqual(
                self.metric("connections_refused_total", port=port, reason="offences"), 0)

    # --- clients above the rate ---

    def greet(self, address, count, source="127.0.0.2"):
        """So many connections that have said the first word, one right after the other."""
        greeting = http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0)
        sockets = [self.enterContext(http2.connect(address, source)) for _ in range(count)]
        for sock in sockets:
            sock.sendall(greeting)
        return sockets

    @staticmethod
    def answered(sockets, seconds):
        """How many are let in within that time. None may be closed."""
        poll, waiting = select.poll(), {sock.fileno(): sock for sock in sockets}
        for sock in sockets:
            poll.register(sock, select.POLLIN)
        deadline = time.monotonic() + seconds
        while waiting and (left := deadline - time.monotonic()) > 0:
            for number, _ in poll.poll(left * 1_000):
                poll.unregister(number)
                assert waiting.pop(number).recv(1), "closed"
        return len(sockets) - len(waiting)

    def test_an_address_that_connects_too_fast_waits_and_others_do_not(self):
        server = self.serve(max_connection_rate_per_peer=10, max_connection_burst_per_peer=10)
        begin = time.monotonic()
        sockets = self.greet(server.server, 60)
        self.await_metric(1, "connections_waiting", port="data")
        self.assert_served(server)
        self.assertTrue(self.is_let_in_from(self.health, "127.0.0.2"), "each port by itself")
        self.assertTrue(self.is_let_in_from(server.admin, "127.0.0.2"), "each port by itself")
        self.assertGreater(self.metric("connections_waiting", port="data"), 5, "too slow to see it")
        self.assertEqual(self.answered(sockets, 10 * daemon.SLOWER), 60)
        self.assertGreater(time.monotonic() - begin, 4.5, "50 beyond the burst, 10 a second")
        self.assertEqual(self.metric("connections_waiting", port="data"), 0)
        self.assertEqual(self.metric("connections_refused_total", port="data", reason="rate"), 0)
        self.assertIn("a connection is delayed", server.log.read_text())

    def test_who_would_wait_too_long_is_refused(self):
        server = self.serve(max_connection_rate_per_peer=5, max_connection_burst_per_peer=5,
                            handshake_timeout="2s")
        sockets = self.greet(server.server, 5 + 10)
        late = self.connect_bare(server.server, 20, "127.0.0.2")
        refused = 20 - len(late) + sum(self.is_closed(sock, 0.01) for sock in late)
        self.assertGreaterEqual(refused, 10)
        self.assertEqual(self.metric("connections_refused_total", port="data", reason="rate"),
                         refused)
        self.assertEqual(self.answered(sockets, 6 * daemon.SLOWER), 15)
        self.assertEqual(self.answered(self.greet(server.server, 1), 6 * daemon.SLOWER), 1)

    def test_who_leaves_again_takes_nobodys_turn(self):
        server = self.serve()
        before = self.metric("connections_accepted_total", port="data")
        begin = time.monotonic()
        for _ in range(3_000):
            http2.connect(server.server, "127.0.0.2").close()
        behind = time.monotonic()
        self.assertTrue(self.is_let_in_from(server.server, "127.0.0.2"))
        self.assertLess(time.monotonic() - behind, 1 * daemon.SLOWER)
        let_in = self.metric("connections_accepted_total", port="data") - before
        self.assertLess(let_in, 100 + 100 * (time.monotonic() - begin) + 10)
        self.assertEqual(self.metric("connections_refused_total", port="data", reason="rate"), 0)

    def test_a_fleet_behind_one_address_is_let_in(self):
        server = self.serve()
        begin = time.monotonic()
        sockets = self.greet(server.server, 800)
        self.assertEqual(self.answered(sockets, 30), 800)
        print(f"800 connections of one address let in after {time.monotonic() - begin:.1f} s")
        self.assertEqual(self.metric("connections_refused_total", port="data", reason="rate"), 0)

    def test_the_rate_is_switched_off_by_a_reload(self):
        config = self.folder() / "lodgekv.yaml"
        config.write_text("max_connection_rate_per_peer: 1\nmax_connection_burst_per_peer: 1\n"
                          "handshake_timeout: 60s\n")
        server = self.serve(config=config)
        sockets = self.greet(server.server, 30)
        self.await_metric(20, "connections_waiting", port="data")
        config.write_text("max_connection_rate_per_peer: 0\nhandshake_timeout: 60s\n")
        server.process.send_signal(signal.SIGHUP)
        self.assertEqual(self.answered(sockets, 10), 30)

    def test_clients_of_a_unix_socket_do_not_wait(self):
        workdir = self.folder()
        path = workdir / "socket"
        server = daemon.UnixDaemon(workdir, path, engine="dram", max_connection_rate_per_peer=1,
                            max_connection_burst_per_peer=1)
        self.enterContext(server)
        begin = time.monotonic()
        for _ in range(8):
            server.ask("put", "k", "v")
        self.assertLess(time.monotonic() - begin, 6 * daemon.SLOWER)

    # --- slowness ---

    def test_handshakes_and_messages_that_do_not_go_on(self):
        server = self.serve(handshake_timeout="1s", message_timeout="2s")
        with http2.Client(server.server) as watcher, http2.Client(server.server) as stalled:
            watch = watcher.start_call(WATCH)
            watcher.send(http2.frame(http2.DATA, http2.END_STREAM, watch, http2.framed(b"")))
            stalled.start_call(PUT)
            bare = self.connect_bare(server.server, 3) + self.connect_bare(self.health, 3)
            for sock in bare:
                self.assertTrue(self.is_closed(sock, 3), "a handshake that never begins")
            stalled.wait(lambda: False, 4)
            self.assertIsNotNone(stalled.ended, "a call without a message")
            self.assertIsNone(watcher.ended, "a watcher, whose message has come")
        self.assertEqual(self.metric("connections_ended_total", port="data", reason="stalled"), 1)

    # --- allowed clients ---

    def test_a_unix_socket_is_its_owners(self):
        workdir = self.folder()
        path = workdir / "socket"
        server = daemon.UnixDaemon(workdir, path, engine="dram")
        before = os.umask(0)
        try:
            self.enterContext(server)
        finally:
            os.umask(before)
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        server.kill()
        self.assertTrue(path.is_socket(), "left behind by the kill")
        server.start()
        server.ask("put", "k", "v")
        self.assertEqual(server.stop(), 0, server.tail())
        self.assertFalse(path.exists())

    @unittest.skipUnless(certificates.have_openssl(), "no openssl command to make certificates")
    def test_a_failed_handshake_names_its_peer(self):
        workdir = self.folder()
        authority = certificates.Authority(workdir)
        pair = authority.issue("server")
        server = daemon.Daemon(workdir, engine="dram", tls_cert_file=pair.cert,
                               tls_key_file=pair.key)
        server.ctl_flags = ["--tls-ca", authority.cert]
        self.enterContext(server)
        self.enterContext(http2.connect(server.server))  # a silent client: not an offence
        time.sleep(0.5)  # so that nothing of the start is left
        with http2.connect(server.server) as sock:
            sock.sendall(http2.PREFACE)
            name = "ipv4:%s:%d" % sock.getsockname()
            self.assertTrue(self.is_closed(sock, 5))
        self.await_log(server, "a TLS handshake failed")
        line = next(line for line in server.log.read_text().splitlines()
                    if "a TLS handshake failed" in line)
        self.assertIn(f"peer={name}", line)
        # A certificate may expire, a client may not use TLS: neither bars an address.
        for _ in range(20):
            with http2.connect(server.server) as sock:
                sock.sendall(http2.PREFACE)
                self.assertTrue(self.is_closed(sock, 5))
        server.ask("put", "k", "v")


if __name__ == "__main__":
    system_test.main()

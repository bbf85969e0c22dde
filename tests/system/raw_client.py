"""Unusual clients of the data service: hand-written HTTP/2, and gRPC without stubs.

Needs Debian's python3-h2 and python3-grpcio.
"""

import contextlib
import socket
import threading
import time

import grpc
import h2.config
import h2.connection
import h2.settings

from http2_client import framed
from kv_messages import SERVICE, get, put

SECONDS = 30


# --- gRPC without stubs ---

@contextlib.contextmanager
def channel(server, **options):
    """With a connection of its own."""
    named = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(server, options=named + list(options.items())) as made:
        yield made


def call(made, method, message, timeout=SECONDS, **options):
    """The answer as bytes; raises grpc.RpcError."""
    return made.unary_unary(SERVICE + method)(message, timeout=timeout, **options)


def start(made, method, message):
    """A call that is under way, as a future."""
    return made.unary_unary(SERVICE + method).future(message, timeout=SECONDS)


def code_of(made, method, message, **options):
    try:
        call(made, method, message, **options)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


# --- HTTP/2 by hand ---

class Http2Client:
    """One connection, which gives no more window than it is told to."""

    def __init__(self, server, window=65_535):
        host, port = server.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), SECONDS)
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self.http2 = h2.connection.H2Connection(config)
        self.http2.local_settings = h2.settings.Settings(
            client=True, initial_values={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window,
                                         h2.settings.SettingCodes.ENABLE_PUSH: 0})
        self.http2.initiate_connection()
        self.server = server
        self.send()

    def send(self):
        self.socket.sendall(self.http2.data_to_send())

    def request(self, method, message):
        """Sends a call whole, and does not read what comes of it. The stream's number."""
        stream = self.http2.get_next_available_stream_id()
        self.http2.send_headers(stream, [(":method", "POST"), (":scheme", "http"),
                                         (":path", SERVICE + method), (":authority", self.server),
                                         ("content-type", "application/grpc"), ("te", "trailers")])
        self.http2.send_data(stream, framed(message), end_stream=True)
        self.send()
        return stream

    def receive(self, seconds):
        """The events that come within so many seconds; windows are not opened again."""
        events = []
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.socket.settimeout(left)
            with contextlib.suppress(TimeoutError):
                data = self.socket.recv(1 << 16)
                if not data:
                    break
                events += self.http2.receive_data(data)
        self.send()
        return events

    def discard(self, seconds):
        """Receives for so many seconds and ignores the content; returns the number of bytes."""
        self.socket.settimeout(0.1)
        deadline = time.monotonic() + seconds
        taken = 0
        while time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError):
                taken += len(self.socket.recv(1 << 20))
        return taken

    def open_window(self):
        """Of the connection, as far as it goes."""
        self.http2.increment_flow_control_window(2**31 - 1 - 65_535)
        self.send()

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# --- the honest client ---

class HonestClient:
    """Puts and gets a pair, one after the other, on a connection of its own, until it is told to
    stop. Whatever is refused is an error."""

    def __init__(self, server):
        self.server = server
        self.latencies = []
        self.errors = []
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        with channel(self.server) as made:
            number = 0
            while not self.done.is_set():
                number += 1
                began = time.monotonic()
                try:
                    key = b"honest/%d" % (number % 100)
                    call(made, "Put", put(key, b"v" * 100))
                    call(made, "Get", get(key))
                except grpc.RpcError as error:
                    self.errors.append(f"{error.code()} {error.details()}")
                self.latencies.append(time.monotonic() - began)

    def __enter__(self):
        self.began = time.monotonic()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        self.seconds = time.monotonic() - self.began

    def rate(self):
        """Pairs of calls a second."""
        return len(self.latencies) / self.seconds

    def p99_ms(self):
        return 1000 * sorted(self.latencies)[len(self.latencies) * 99 // 100]

    def __str__(self):
        return f"{self.rate():.0f} puts and gets a second, p99 {self.p99_ms():.1f} ms"

"""Frames of HTTP/2 by hand, for clients that misbehave: no library sends what these send.

A Client reads in the background what the server says, so that neither side waits for the other, and
keeps the windows that it was given.
"""

import contextlib
import itertools
import socket
import struct
import threading
import time

DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 7, 8, 9
ACK, END_STREAM, END_HEADERS = 1, 1, 4
CANCEL = 8
MAX_FRAME = 16_384
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE = 3, 4


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(
        ">I", stream) + payload


def integer(value):
    """A length in HPACK with a 7-bit prefix."""
    if value < 127:
        return bytes([value])
    out, value = b"\x7f", value - 127
    while value >= 128:
        out, value = out + bytes([value % 128 + 128]), value // 128
    return out + bytes([value])


def header(name, value):
    """Literal, not indexed."""
    return b"\x00" + integer(len(name)) + name + integer(len(value)) + value


def request_headers(path):
    return b"".join(header(name, value) for name, value in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", path.encode()),
        (b":authority", b"test"), (b"te", b"trailers"), (b"content-type", b"application/grpc")))


def connect(address, source=None, seconds=10):
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), seconds,
                                    source_address=None if source is None else (source, 0))


class Client:
    """A connection of HTTP/2. `ended` is when the server closed it, by time.monotonic()."""

    def __init__(self, address, source=None, *, acknowledge=True):
        self.sock = connect(address, source)
        self.sock.settimeout(None)  # before two threads use it: a call in flight would fail
        self.name = "ipv4:%s:%d" % self.sock.getsockname()
        self.ended = None
        self.changed = threading.Condition()
        self.windows, self.initial, self.max_streams = {0: 65_535}, 65_535, None
        self.streams_ended = set()
        self.acknowledge = acknowledge  # no frame may come between those of a block of headers
        self.streams = itertools.count(1, 2)
        self.sock.sendall(PREFACE + frame(SETTINGS, 0, 0))
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        if acknowledge:
            self.wait(lambda: self.max_streams is not None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.reader.join(10)
        self.sock.close()

    def wait(self, is_so, seconds=10):
        with self.changed:
            return self.changed.wait_for(lambda: is_so() or self.ended is not None, seconds)

    def send(self, data):
        """False: the server has ended the connection."""
        try:
            self.sock.sendall(data)
        except OSError:
            return False
        return True

    def start_call(self, path):
        stream = next(self.streams)
        with self.changed:
            self.windows[stream] = self.initial
        self.send(frame(HEADERS, END_HEADERS, stream, request_headers(path)))
        return stream

    def call(self, path, message=b""):
        """A whole call, whatever its answer; True when it was answered."""
        stream = self.start_call(path)
        self.send(frame(DATA, END_STREAM, stream, b"\0" + struct.pack(">I", len(message))
                        + message))
        self.wait(lambda: stream in self.streams_ended)
        return stream in self.streams_ended

    def send_data(self, stream, size):
        """As much of `size` as the windows and a frame allow; how much that was."""
        with self.changed:
            size = min(size, MAX_FRAME, self.windows[0], self.windows[stream])
            if size <= 0:
                return 0
            self.windows[0] -= size
            self.windows[stream] -= size
        return size if self.send(frame(DATA, 0, stream, b"x" * size)) else 0

    def _read(self):
        with contextlib.suppress(OSError):
            while head := self._exactly(9):
                size, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
                self._take(kind, flags, struct.unpack(">I", head[5:])[0], self._exactly(size))
        with self.changed:
            self.ended = time.monotonic()
            self.changed.notify_all()

    def _exactly(self, size):
        data = b""
        while len(data) < size:
            more = self.sock.recv(size - len(data))
            if not more:
                return b""
            data += more
        return data

    def _take(self, kind, flags, stream, payload):
        with self.changed:
            if kind == SETTINGS and not flags & ACK:
                self._take_settings(dict(struct.iter_unpack(">HI", payload)))
            elif kind == WINDOW_UPDATE and stream in self.windows:
                self.windows[stream] += struct.unpack(">I", payload)[0]
            elif kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM):
                self.streams_ended.add(stream)
            self.changed.notify_all()

    def _take_settings(self, settings):
        self.max_streams = settings.get(MAX_CONCURRENT_STREAMS, 1 << 31)
        initial = settings.get(INITIAL_WINDOW_SIZE, self.initial)
        for stream in self.windows:
            if stream != 0:
                self.windows[stream] += initial - self.initial
        self.initial = initial
        if self.acknowledge:
            self.send(frame(SETTINGS, ACK, 0))

"""HTTP/2 as hostile clients speak it: frames made by hand over a plain socket; and one client that
keeps to the rules, to see how it fares beside them.

Header blocks are literals without an index, so that a frame is a constant that may be sent a
hundred thousand times.
"""

import contextlib
import socket
import struct
import threading

import http2_client
from http2_client import (ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE,
                          PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame)

PING = 6
CANCEL = struct.pack(">I", http2_client.CANCEL)
MOST_DATA = http2_client.MAX_FRAME
KV = "/lodgekv.v1.KvService/"


def literal(name, value):
    return http2_client.header(name.encode(), value.encode())


def header_block(path, **more):
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost",
              "te": "trailers", "content-type": "application/grpc"}
    fields |= {name.replace("_", "-"): value for name, value in more.items()}
    return b"".join(literal(name, value) for name, value in fields.items())


def message(payload, compressed=False):
    return struct.pack(">BI", compressed, len(payload)) + payload


def varint(value):
    out = b""
    while value >= 128:
        out += bytes((value % 128 + 128,))
        value //= 128
    return out + bytes((value,))


def field(number, payload):
    """A field of bytes of a protobuf message."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


class Connection:
    """Preface and settings are sent; what the server says is read and thrown away, or left."""

    def __init__(self, address, window=None, reads=True, receive_buffer=None, source=None,
                 tls=None):
        host, port = address.rsplit(":", 1)
        self.socket = socket.socket()
        if source:
            self.socket.bind((source, 0))
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(20)
        self.socket.connect((host, int(port)))
        if tls:
            self.socket = tls.wrap_socket(self.socket)
        settings = b"" if window is None else struct.pack(">HI", INITIAL_WINDOW_SIZE, window)
        self.send(PREFACE + frame(SETTINGS, 0, 0, settings))
        self._next = 1
        self._await_windows()
        if reads:
            threading.Thread(target=self._drain, daemon=True).start()

    def _await_windows(self):
        """Until the server has opened them: what comes before is a fault of one stream alone."""
        kind = None
        while kind != WINDOW_UPDATE:
            head = self.receive(9)
            kind = head[3]
            self.receive(int.from_bytes(head[:3], "big"))
            if kind == SETTINGS and not head[4] & ACK:
                self.send(frame(SETTINGS, ACK, 0))

    def receive(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionError("cut")
            data += part
        return data

    def _drain(self):
        with contextlib.suppress(OSError):
            while self.socket.recv(1 << 16):
                pass

    def send(self, data):
        self.socket.sendall(data)

    def next_stream(self):
        stream, self._next = self._next, self._next + 2
        return stream

    def call(self, path, payload):
        """A whole request, in frames of the usual size."""
        stream = self.next_stream()
        body = message(payload)
        parts = [frame(HEADERS, END_HEADERS, stream, header_block(path))]
        for at in range(0, len(body), MOST_DATA):
            last = at + MOST_DATA >= len(body)
            parts.append(frame(DATA, END_STREAM if last else 0, stream, body[at:at + MOST_DATA]))
        self.send(b"".join(parts))
        return stream

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.close()


class Refused(Exception):
    """The call was answered with an error."""


class Client:
    """One call at a time, as a well-behaved client makes it."""

    def __init__(self, address, timeout, tls=None):
        self._connection = Connection(address, reads=False, tls=tls)
        self._connection.socket.settimeout(timeout)
        self._connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._input = self._connection.socket.makefile("rb")

    def call(self, path, payload):
        stream = self._connection.call(path, payload)
        answered = False
        while True:
            kind, flags, number, body = self._read_frame()
            if kind == SETTINGS and not flags & ACK:
                self._connection.send(frame(SETTINGS, ACK, 0))
            elif kind == PING and not flags & ACK:
                self._connection.send(frame(PING, ACK, 0, body))
            elif kind == DATA and body:
                answered = True
                more = struct.pack(">I", len(body))
                self._connection.send(frame(WINDOW_UPDATE, 0, 0, more))
            elif kind == GOAWAY:
                raise ConnectionError("told to go away")
            if number == stream and (kind == RST_STREAM or flags & END_STREAM
                                     and kind in (DATA, HEADERS)):
                if not answered:
                    raise Refused
                return

    def _read_frame(self):
        head = self._input.read(9)
        if len(head) < 9:
            raise ConnectionError("cut")
        body = self._input.read(int.from_bytes(head[:3], "big"))
        return head[3], head[4], struct.unpack(">I", head[5:9])[0] & (1 << 31) - 1, body

    def close(self):
        self._input.close()
        self._connection.close()

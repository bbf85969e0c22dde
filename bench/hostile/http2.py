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
FIRST_WINDOW = 65_535  # of a connection, and of a stream until the server says otherwise
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
    """Preface and settings are sent; what the server says is read and thrown away, or left.
    Requests keep to the windows that it gives."""

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
        self._input = self.socket.makefile("rb")
        self._opened = threading.Condition()  # guards the windows
        self._room, self._first_room, self._stream_room = FIRST_WINDOW, FIRST_WINDOW, {}
        self._ended = False
        self._reads = reads
        self._next = 1
        self._unread = []  # frames that came while a request waited for its windows
        settings = b"" if window is None else struct.pack(">HI", INITIAL_WINDOW_SIZE, window)
        self.send(PREFACE + frame(SETTINGS, 0, 0, settings))
        self._await_settings()
        if reads:
            threading.Thread(target=self._drain, daemon=True).start()

    def _await_settings(self):
        """Until the server has taken ours: what comes before is a fault of one stream alone."""
        kind = flags = None
        while kind != SETTINGS or not flags & ACK:
            kind, flags, _, _ = self._receive()

    def _receive(self):
        head = self._input.read(9)
        body = self._input.read(int.from_bytes(head[:3], "big")) if len(head) == 9 else b""
        if len(head) < 9:
            raise ConnectionError("cut")
        kind, flags, stream = head[3], head[4], struct.unpack(">I", head[5:])[0] & (1 << 31) - 1
        if kind == SETTINGS and not flags & ACK:
            self._note_settings(body)
        elif kind == WINDOW_UPDATE:
            self._note_room(stream, struct.unpack(">I", body)[0])
        elif kind == RST_STREAM or kind in (DATA, HEADERS) and flags & END_STREAM:
            self._forget(stream)
        return kind, flags, stream, body

    def _note_settings(self, body):
        for at in range(0, len(body), 6):
            number, value = struct.unpack_from(">HI", body, at)
            if number == INITIAL_WINDOW_SIZE:
                self._first_room = value  # before there is a stream
        self.send(frame(SETTINGS, ACK, 0))

    def _note_room(self, stream, more):
        with self._opened:
            if stream == 0:
                self._room += more
            elif stream in self._stream_room:
                self._stream_room[stream] += more
            self._opened.notify_all()

    def _forget(self, stream):
        """It has been sent, or answered already: then no window is opened for the rest."""
        with self._opened:
            self._stream_room.pop(stream, None)
            self._opened.notify_all()

    def _drain(self):
        with contextlib.suppress(OSError, ValueError):
            while True:
                self._receive()
        with self._opened:
            self._ended = True
            self._opened.notify_all()

    def read_frame(self):
        """Of a connection that is not read in the background."""
        return self._unread.pop(0) if self._unread else self._receive()

    def _take(self, stream, size):
        """Waits until the windows let so much through, and takes it. False: the stream ended."""
        while True:
            with self._opened:
                if stream not in self._stream_room:
                    return False
                if min(self._room, self._stream_room[stream]) >= size:
                    self._room -= size
                    self._stream_room[stream] -= size
                    return True
                if self._ended:
                    raise ConnectionError("cut")
                if self._reads:
                    self._opened.wait(1)
                    continue
            self._unread.append(self._receive())

    def send(self, data):
        self.socket.sendall(data)

    def send_data(self, stream, body):
        """A whole message, in frames of the usual size."""
        self._stream_room[stream] = self._first_room
        for at in range(0, len(body), MOST_DATA):
            part = body[at:at + MOST_DATA]
            if not self._take(stream, len(part)):
                return
            last = at + MOST_DATA >= len(body)
            self.send(frame(DATA, END_STREAM if last else 0, stream, part))
        self._forget(stream)

    def next_stream(self):
        stream, self._next = self._next, self._next + 2
        return stream

    def call(self, path, payload):
        stream = self.next_stream()
        self.send(frame(HEADERS, END_HEADERS, stream, header_block(path)))
        self.send_data(stream, message(payload))
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

    def call(self, path, payload):
        stream = self._connection.call(path, payload)
        answered = False
        while True:
            kind, flags, number, body = self._connection.read_frame()
            if kind == PING and not flags & ACK:
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

    def close(self):
        self._connection.close()

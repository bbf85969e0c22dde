"""Frames of HTTP/2 by hand, for clients that misbehave: no library sends what these send.

Header blocks are literals without an index, so that a frame is a constant that may be sent a
hundred thousand times.
"""

import contextlib
import itertools
import socket
import struct
import threading
import time

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING = 0, 1, 2, 3, 4, 6
GOAWAY, WINDOW_UPDATE, CONTINUATION = 7, 8, 9
ACK, END_STREAM, END_HEADERS = 1, 1, 4
CANCEL = 8
MAX_FRAME = 16_384
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE = 3, 4
FIRST_WINDOW = 65_535  # of a connection, and of a stream until the server says otherwise
PATIENCE_SECONDS = 10


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(
        ">I", stream) + payload


def reset(stream):
    return frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL))


# Those that a server takes without a request of theirs.
FRAMES_OF_NO_REQUEST = {
    "settings": frame(SETTINGS, 0, 0),
    "acknowledged settings": frame(SETTINGS, ACK, 0),
    "acknowledged pings": frame(PING, ACK, 0, bytes(8)),
    "window updates": frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)),
    "window updates of no stream": frame(WINDOW_UPDATE, 0, 99, struct.pack(">I", 1)),
    "priorities": frame(PRIORITY, 0, 1, struct.pack(">IB", 0, 1)),
    "resets of no stream": reset(99),
    "farewells": frame(GOAWAY, 0, 0, bytes(8)),
    "unknown kinds": frame(77, 0, 0),
}


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


def request_headers(path, **more):
    """`more` with _ for the - of their names."""
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost",
              "te": "trailers", "content-type": "application/grpc"}
    fields |= {name.replace("_", "-"): value for name, value in more.items()}
    return b"".join(header(name.encode(), value.encode()) for name, value in fields.items())


def announced(size, compressed=False):
    """What gRPC sends before a message of that size."""
    return struct.pack(">BI", compressed, size)


def framed(message, compressed=False):
    return announced(len(message), compressed) + message


def connect(address, source=None, seconds=PATIENCE_SECONDS, receive_buffer=None):
    host, port = address.rsplit(":", 1)
    sock = socket.socket()
    try:
        if source is not None:
            sock.bind((source, 0))
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.settimeout(seconds)
        sock.connect((host, int(port)))
    except OSError:
        sock.close()
        raise
    return sock


class NoWindowError(Exception):
    """The server lets nothing more through, and ends neither the stream nor the connection."""


class Client:
    """A connection of HTTP/2, which keeps to the windows that it is given.

    What the server says is read in the background, so that neither side waits for the other; with
    reads=False only where something is awaited, and by receive().

    `windows` is what may be sent: on the connection, as that of stream 0, and on each stream that
    has not ended. `ended` is when a read found the connection ended, by time.monotonic().
    """

    def __init__(self, address, source=None, *, window=None, reads=True, acknowledge=True,
                 receive_buffer=None, seconds=None, tls=None):
        """acknowledge=False: no frame is sent unasked, so that a block of headers may come first.
        `seconds` is the most that a call of the socket takes."""
        self.patience = seconds or PATIENCE_SECONDS
        self.socket = connect(address, source, self.patience, receive_buffer)
        if tls:
            self.socket = tls.wrap_socket(self.socket)
        self.socket.settimeout(seconds)  # before two threads use it: a call in flight would fail
        self.ended = None
        self.changed = threading.Condition()
        self.windows, self.initial, self.max_streams = {0: FIRST_WINDOW}, FIRST_WINDOW, None
        self.acknowledge, self.acknowledged = acknowledge, False
        self.streams = itertools.count(1, 2)
        self.input = bytearray()
        self.unread = []  # frames that came while something was awaited, if reads=False
        self.reader = None
        try:
            self._greet(window, reads)
        except OSError:
            self.close()
            raise

    def _greet(self, window, reads):
        """Until the server's settings are here. Who asks nothing for longer may be ended."""
        settings = b"" if window is None else struct.pack(">HI", INITIAL_WINDOW_SIZE, window)
        self.send(PREFACE + frame(SETTINGS, 0, 0, settings))
        if reads:
            self.reader = threading.Thread(target=self._read, daemon=True)
            self.reader.start()
        if self.acknowledge:
            self._await(lambda: self.max_streams is not None)

    def await_acknowledgement(self):
        """Until the server has taken our settings: what comes before is a fault of one stream."""
        self._await(lambda: self.acknowledged)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        if self.reader:
            self.reader.join(10)
        self.socket.close()

    # --- what is sent ---

    def send(self, data):
        self.socket.sendall(data)

    def try_send(self, data):
        """False: the server has ended the connection."""
        try:
            self.send(data)
        except OSError:
            return False
        return True

    def open_stream(self):
        """Its number. In `windows` until it ends."""
        stream = next(self.streams)
        with self.changed:
            self.windows[stream] = self.initial
        return stream

    def start_call(self, path, **headers):
        stream = self.open_stream()
        self.send(frame(HEADERS, END_HEADERS, stream, request_headers(path, **headers)))
        return stream

    def request(self, path, message=b""):
        """A call whose answer is not awaited."""
        stream = self.start_call(path)
        self.send_all(stream, framed(message))
        return stream

    def call(self, path, message=b""):
        """A whole call, whatever its answer; True when it was answered."""
        try:
            stream = self.request(path, message)
        except OSError:
            return False
        self.wait(lambda: stream not in self.windows)
        return stream not in self.windows

    def send_data(self, stream, size):
        """As much of `size` as the windows and a frame allow; how much that was."""
        with self.changed:
            size = min(size, MAX_FRAME, self.windows[0], self.windows.get(stream, 0))
            if size <= 0:
                return 0
            self._take(stream, size)
        return size if self.try_send(frame(DATA, 0, stream, b"x" * size)) else 0

    def send_all(self, stream, data):
        """All that the stream is to send, as the windows let it through; when the stream has been
        answered meanwhile, nothing opens them for the rest, which is not sent."""
        for at in range(0, len(data), MAX_FRAME):
            part = data[at:at + MAX_FRAME]
            if not self._await_window(stream, len(part)):
                return
            last = at + MAX_FRAME >= len(data)
            self.send(frame(DATA, END_STREAM if last else 0, stream, part))

    def _await_window(self, stream, size):
        """Takes so much of the windows. False: the stream has ended."""
        with self.changed:
            try:
                self._await(lambda: stream not in self.windows
                            or min(self.windows[0], self.windows[stream]) >= size)
            except TimeoutError:
                raise NoWindowError(f"{size} bytes waited {self.patience} s in vain for windows of "
                                    f"{self.windows[0]} and {self.windows[stream]}") from None
            if stream not in self.windows:
                return False
            self._take(stream, size)
            return True

    def _take(self, stream, size):
        self.windows[0] -= size
        self.windows[stream] -= size

    # --- what comes ---

    def wait(self, is_so, seconds=PATIENCE_SECONDS):
        """Or until the connection has ended. Only where something reads in the background."""
        with self.changed:
            return self.changed.wait_for(lambda: is_so() or self.ended is not None, seconds)

    def _await(self, is_so):
        """Raises OSError when it can not be any more, or takes too long."""
        while self.reader is None and not is_so():
            self.unread.append(self._receive())
        if not self.wait(is_so, self.patience):
            raise TimeoutError(f"nothing from the server for {self.patience} s")
        if not is_so():
            raise ConnectionError("the server has ended the connection")

    def receive(self):
        """The next frame as kind, flags, stream, payload, of a client that does not read."""
        return self.unread.pop(0) if self.unread else self._receive()

    def _read(self):
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    self._receive()
        except OSError:
            with self.changed:
                self.ended = time.monotonic()
                self.changed.notify_all()

    def _receive(self):
        self._fill(9)
        size, kind, flags = int.from_bytes(self.input[:3], "big"), self.input[3], self.input[4]
        stream = int.from_bytes(self.input[5:9], "big") & (1 << 31) - 1
        self._fill(9 + size)
        payload = bytes(self.input[9:9 + size])
        del self.input[:9 + size]
        self._note(kind, flags, stream, payload)
        return kind, flags, stream, payload

    def _fill(self, size):
        """Keeps what came before a time-out."""
        while len(self.input) < size:
            more = self.socket.recv(MAX_FRAME)
            if not more:
                raise ConnectionError("the server has ended the connection")
            self.input += more

    def _note(self, kind, flags, stream, payload):
        with self.changed:
            if kind == SETTINGS and flags & ACK:
                self.acknowledged = True
            elif kind == SETTINGS:
                self._take_settings(dict(struct.iter_unpack(">HI", payload)))
            elif kind == WINDOW_UPDATE and stream in self.windows:
                self.windows[stream] += struct.unpack(">I", payload)[0]
            elif kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM):
                self.windows.pop(stream, None)
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

"""What a client sends that speaks HTTP/2 nearly right: frames in their order most of the time,
headers that mostly make a request, and now and then a length, a flag, an index or a byte that is
wrong.
"""

import struct

import http2_client as http2

PATHS = [f"/lodgekv.v1.KvService/{method}" for method in
         ("Get", "Put", "Delete", "Scan", "BatchGet", "BatchWrite", "Session")] + [
             "/lodgekv.v1.AdminService/Status", "/grpc.health.v1.Health/Check",
             "/grpc.health.v1.Health/Watch",
             "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "/x", "*", ""]
# Those that gRPC looks at, and some that it should not.
NAMES = [b":method", b":scheme", b":path", b":authority", b":status", b"te", b"content-type",
         b"content-length", b"connection", b"host", b"user-agent", b"grpc-timeout",
         b"grpc-encoding", b"grpc-accept-encoding", b"grpc-internal-encoding-request",
         b"grpc-status", b"grpc-message", b"grpc-previous-rpc-attempts",
         b"grpc-retry-pushback-ms", b"grpc-trace-bin", b"grpc-tags-bin", b"grpc-server-stats-bin",
         b"endpoint-load-metrics-bin", b"lb-token", b"lb-cost-bin", b"a-bin", b"X-Upper",
         b"\xff\xfe", b""]
VALUES = [b"POST", b"GET", b"http", b"https", b"trailers", b"application/grpc",
          b"application/grpc+proto", b"text/html", b"identity", b"gzip", b"deflate,gzip",
          b"gzip,,x", b"1S", b"0n", b"99999999H", b"-1m", b"0", b"1", b"16", b"-5", b"200", b"AAAA",
          b"AAA=", b"AA==,AA==", b"!!!!", b"a\x00b", b"\xc3\x28", b"\r\n", b""]
SETTINGS_VALUES = (0, 1, 100, 65_535, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
LITERALS = (0x00, 0x10, 0x40)  # not indexed, never indexed, indexed
PUSH_PROMISE, PADDED, PRIORITIZED = 5, 8, 0x20


class NearlyHttp2:
    def __init__(self, random):
        self.random = random

    def rarely(self, chance=0.05):
        return self.random.random() < chance

    def pick(self, *choices):
        return self.random.choice(choices)

    # --- headers ---

    def prefixed(self, value, bits, flags):
        """An integer in HPACK behind some flags."""
        most = (1 << bits) - 1
        if value < most:
            return bytes([flags | value])
        out, value = bytes([flags | most]), value - most
        while value >= 128:
            out, value = out + bytes([value % 128 + 128]), value // 128
        return out + bytes([value])

    def text(self, value):
        coded = 0x80 if self.rarely() else 0  # as if by Huffman
        wrong = self.random.randrange(3) if self.rarely(0.02) else 0
        return self.prefixed(len(value) + wrong, 7, coded) + value

    def value(self):
        kind = self.random.random()
        if kind < 0.6:
            return self.random.choice(VALUES)
        if kind < 0.8:
            return self.random.randbytes(self.random.randrange(40))
        return self.pick(b"a", b"A", b"=") * self.pick(1, 3, 100, 4000, 8192, 9000)

    def field(self):
        kind = self.random.random()
        if kind < 0.1:  # name and value by an index, which the table may not have
            return self.prefixed(self.random.randrange(90), 7, 0x80)
        if kind < 0.2:
            return self.prefixed(1 + self.random.randrange(90), 4, 0) + self.text(self.value())
        if kind < 0.23:  # the table's size
            return self.prefixed(self.pick(0, 1, 4096, 65_536, 1 << 31), 5, 0x20)
        return bytes([self.pick(*LITERALS)]) + self.text(
            self.random.choice(NAMES)) + self.text(self.value())

    def block(self):
        fields = {b":method": b"POST", b":scheme": b"http", b":authority": b"localhost",
                  b":path": self.random.choice(PATHS).encode(), b"te": b"trailers",
                  b"content-type": b"application/grpc"}
        out = b""
        for name, value in fields.items():
            if not self.rarely(0.03):
                out += http2.header(name, self.value() if self.rarely(0.03) else value)
        return out + b"".join(self.field() for _ in range(self.pick(0, 0, 0, 1, 2, 8, 30)))

    # --- frames ---

    def headers(self, stream):
        block = self.block()
        flags = self.pick(0, http2.END_STREAM)
        if self.rarely():
            flags |= self.random.randrange(256)
        if flags & PRIORITIZED:
            block = self.random.randbytes(5) + block
        if flags & PADDED:
            block = bytes([self.random.randrange(20)]) + block
        size = min(http2.MAX_FRAME, -(-len(block) // self.pick(1, 1, 1, 2, 10)))
        pieces = [block[at:at + size] for at in range(0, len(block), size)]
        out = b""
        for number, piece in enumerate(pieces):
            end = http2.END_HEADERS if number == len(pieces) - 1 or self.rarely(0.01) else 0
            first = number == 0
            out += http2.frame(http2.HEADERS if first else http2.CONTINUATION,
                               flags & ~http2.END_HEADERS | end if first else end, stream, piece)
            if self.rarely(0.01):
                out += self.other(stream)
        return out

    def data(self, stream):
        message = self.random.randbytes(self.pick(0, 1, 5, 30, 300))
        if not self.rarely(0.3):
            size = max(0, len(message) + self.pick(0, 0, 0, 0, 1, -1, 1 << 20))
            message = struct.pack(">BI", self.pick(0, 0, 0, 1, 2), size) + message
        return http2.frame(http2.DATA, self.pick(0, 1, 1, PADDED, PADDED | 1), stream, message)

    def other(self, stream):
        settings = b"".join(
            struct.pack(">HI", self.pick(1, 2, 3, 4, 5, 6, 9, 0xfe03), self.pick(*SETTINGS_VALUES))
            for _ in range(self.random.randrange(4)))
        number = struct.pack(">I", self.pick(0, 1, 8, 1000, (1 << 31) - 1))
        return self.pick(
            http2.frame(http2.RST_STREAM, 0, stream, number),
            http2.frame(http2.SETTINGS, 0, 0, settings),
            http2.frame(http2.SETTINGS, http2.ACK, 0),
            http2.frame(http2.PING, self.pick(0, 1), 0, bytes(self.pick(8, 8, 7, 0))),
            http2.frame(http2.GOAWAY, 0, 0, bytes(self.pick(8, 30))),
            http2.frame(http2.WINDOW_UPDATE, 0, self.pick(0, stream), number),
            http2.frame(http2.PRIORITY, 0, stream, self.random.randbytes(5)),
            http2.frame(PUSH_PROMISE, http2.END_HEADERS, stream, bytes(20)),
            http2.frame(self.random.randrange(20), self.random.randrange(256),
                        self.random.randrange(9),
                        self.random.randbytes(self.random.randrange(100))))

    def connection(self):
        """All that a client sends on one connection."""
        out = http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0)
        if not self.rarely(0.1):
            out += http2.frame(http2.SETTINGS, http2.ACK, 0)
        stream = 1
        for _ in range(1 + self.random.randrange(12)):
            kind = self.random.random()
            if kind < 0.5:
                out += self.headers(stream)
                out += b"".join(self.data(stream) for _ in range(self.pick(0, 1, 1, 2)))
                stream += 2
            else:
                near = self.pick(stream, max(1, stream - 2), 1)
                out += self.other(near) if kind < 0.8 else self.data(near)
        return out

"""The client that keeps to the rules, to see how it fares beside those that do not."""

import socket
import struct
import threading
import time

import http2_client
import kv_messages
from http2_client import (ACK, DATA, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, WINDOW_UPDATE,
                          frame)

VALUE = b"v" * 100
CALL_SECONDS = 5
CONNECT_SECONDS = 20
PATIENCE_SECONDS = 60


class Refused(Exception):
    """The call was answered with an error."""


class Caller:
    """One call at a time, on one connection."""

    def __init__(self, address, seconds, tls=None):
        self._client = http2_client.Client(address, reads=False, seconds=CONNECT_SECONDS, tls=tls)
        self._client.await_acknowledgement()
        self._client.socket.settimeout(seconds)
        self._client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, method, message):
        stream = self._client.request(kv_messages.SERVICE + method, message)
        answered = False
        while True:
            kind, flags, number, payload = self._client.receive()
            if kind == PING and not flags & ACK:
                self._client.send(frame(PING, ACK, 0, payload))
            elif kind == DATA and payload:
                answered = True
                more = struct.pack(">I", len(payload))
                self._client.send(frame(WINDOW_UPDATE, 0, 0, more))
            elif kind == GOAWAY:
                raise ConnectionError("told to go away")
            if number == stream and (kind == RST_STREAM or flags & END_STREAM
                                     and kind in (DATA, HEADERS)):
                if not answered:
                    raise Refused
                return

    def close(self):
        self._client.close()


class WellBehaved:
    """Put and Get in turn, on a thread; a refusal is tried again at once."""

    def __init__(self, address, tls, keys):
        self.address, self.tls, self.keys = address, tls, keys
        self.samples = []  # (end, seconds)
        self.failures = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        number, caller = 0, None
        while not self._stop.is_set():
            number += 1
            begin = time.monotonic()
            try:
                caller = caller or Caller(self.address, CALL_SECONDS, self.tls)
                self._call(caller, number)
            except Refused:
                self.failures += 1
                continue
            except (OSError, http2_client.NoWindowError):
                self.failures += 1
                if caller:
                    caller.close()
                caller = None
                time.sleep(0.02)
                continue
            end = time.monotonic()
            self.samples.append((end, end - begin))
        if caller:
            caller.close()

    def _call(self, caller, number):
        key = b"key%06d" % (number % self.keys)
        if number % 2:
            caller.call("Put", kv_messages.put(key, VALUE))
        else:
            caller.call("Get", kv_messages.get(key))

    def stop(self):
        self._stop.set()
        self._thread.join()

    def is_answered(self, since):
        """Whether a call that begins now or later than that is answered, which is waited for."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            samples = self.samples[-1:]
            if samples and samples[0][0] - samples[0][1] >= since:
                return True
            time.sleep(0.01)
        return False

    def between(self, begin, end):
        """Calls a second, and the 99th percentile in seconds."""
        seconds = sorted(s for at, s in self.samples if begin <= at < end)
        if not seconds:
            return 0.0, float("inf")
        return len(seconds) / (end - begin), seconds[int(len(seconds) * 0.99)]

    def served_as_before(self, since, calls_before):
        """Seconds until a tenth of a second with at least half the calls of before."""
        ends = [at for at, _ in self.samples if at >= since]
        for step in range(100):
            begin = since + step * 0.1
            if sum(begin <= at < begin + 0.1 for at in ends) >= calls_before * 0.1 * 0.5:
                return step * 0.1
        return float("inf")

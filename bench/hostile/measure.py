#!/usr/bin/env python3
"""What the server holds out against: each attack of attacks.py beside a well-behaved client.

Prints a row of a Markdown table for each: the load; the memory of the server before, at its most
and three seconds after; of the well-behaved client the calls a second and the 99th percentile
during the attack, as shares of those before; and how long after it it was served as before.

  measure.py [--seconds N] [--bin FOLDER] [ATTACK...]
"""

import argparse
import multiprocessing
import os
import pathlib
import resource
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "system"))
sys.dont_write_bytecode = True
os.environ.setdefault("LODGEKV_BIN", str(ROOT / "build" / "release" / "bin"))

import attacks  # noqa: E402
import certificates  # noqa: E402
import daemon  # noqa: E402
from http2 import KV, Client, Refused, field  # noqa: E402

KEYS = 20_000
VALUE = b"v" * 100
CALL_SECONDS = 5
AFTER_SECONDS = 3


class WellBehaved:
    """One connection, Put and Get in turn, one at a time; a refusal is tried again at once."""

    def __init__(self, address, tls):
        self.address, self.tls = address, tls
        self.samples = []  # (end, seconds)
        self.failures = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        number, client = 0, None
        while not self._stop.is_set():
            number += 1
            key = field(1, b"key%06d" % (number % KEYS))
            begin = time.monotonic()
            try:
                client = client or Client(self.address, CALL_SECONDS, self.tls)
                if number % 2:
                    client.call(KV + "Put", key + field(2, VALUE))
                else:
                    client.call(KV + "Get", key)
            except Refused:
                self.failures += 1
                continue
            except OSError:
                self.failures += 1
                if client:
                    client.close()
                client = None
                time.sleep(0.02)
                continue
            end = time.monotonic()
            self.samples.append((end, end - begin))

    def stop(self):
        self._stop.set()
        self._thread.join()

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


def rss_mib(pid):
    """Resident memory of its own: without the pool, which is mapped."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return 0.0


class MostMemory:
    def __init__(self, pid):
        self.pid, self.most = pid, 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._stop.wait(0.02):
            self.most = max(self.most, rss_mib(self.pid))

    def stop(self):
        self._stop.set()
        self._thread.join()
        return self.most


def attack_process(name, target, seconds, pipe):
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # An attacker has its own machine: on this one it uses only idle time.
    os.nice(19)
    pipe.send(attacks.ATTACKS[name](target, time.monotonic() + seconds))


def fill(address, tls):
    client = Client(address, 60, tls)
    for begin in range(0, KEYS, 1_000):
        client.call(KV + "BatchWrite", b"".join(
            field(1, b"\x08\x01" + field(2, b"key%06d" % n) + field(3, VALUE))
            for n in range(begin, begin + 1_000)))
    for n in range(200):
        client.call(KV + "Put", field(1, b"large%06d" % n) + field(2, b"V" * 500_000))
    client.close()


def measure(name, seconds, workdir):
    flags = {"pool": workdir / "pool", "pool_size": "1GiB", "metrics_listen":
             f"127.0.0.1:{daemon.free_port()}", "health_listen": f"127.0.0.1:{daemon.free_port()}"}
    tls = None
    if name in attacks.OVER_TLS:
        tls = attacks.any_server()
        authority = certificates.Authority(workdir)
        pair = authority.issue("server")
        flags |= {"tls_cert_file": pair.cert, "tls_key_file": pair.key}
    server = daemon.Daemon(workdir, **flags)
    if tls:
        server.ctl_flags = ["--tls-ca", authority.cert]
    with server:
        fill(server.server, tls)
        target = attacks.Target(server.server, server.admin, flags["health_listen"],
                                flags["metrics_listen"])
        client = WellBehaved(server.server, tls)
        try:
            return name, observe(name, seconds, server, client, target)
        finally:
            client.stop()


def observe(name, seconds, server, client, target):
    pid = server.process.pid
    time.sleep(1)
    begin = time.monotonic()
    time.sleep(2)
    attacked = time.monotonic()
    calls_before, p99_before = client.between(begin, attacked)
    memory_before = rss_mib(pid)
    most = MostMemory(pid)
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=attack_process, args=(name, target, seconds, theirs))
    process.start()
    ours.poll(seconds + 30)
    over = time.monotonic()
    process.terminate()
    load = ours.recv() if ours.poll() else "the attack did not end"
    process.join()
    failures = client.failures
    time.sleep(AFTER_SECONDS)
    memory_after = rss_mib(pid) if server.process.poll() is None else float("nan")
    calls, p99 = client.between(attacked, over)
    return {"load": load, "alive": server.process.poll() is None,
            "memory": (memory_before, most.stop(), memory_after),
            "calls": (calls_before, calls), "p99_ms": (p99_before * 1e3, p99 * 1e3),
            "refused": failures, "recovery": client.served_as_before(over, calls_before)}


def row(name, seen):
    before, most, after = seen["memory"]
    calls_before, calls = seen["calls"]
    p99_before, p99 = seen["p99_ms"]
    alive = "" if seen["alive"] else " **ended**"
    return (f"| {name} | {seen['load']}{alive} | {before:.0f} / {most:.0f} / {after:.0f} "
            f"| {calls / calls_before:.2f} | {p99 / p99_before:.1f} ({p99:.1f} ms) "
            f"| {seen['refused']} | {seen['recovery']:.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK")
    options = parser.parse_args()
    wanted = [name for name in attacks.ATTACKS
              if not options.attacks or any(part in name for part in options.attacks)]
    print("| Attack | Load | Memory before / most / after, MiB | Calls a second, share of before "
          "| 99th percentile, times that of before | Refused calls | Served as before after, s |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for name in wanted:
        with daemon.folder() as workdir:
            print(row(*measure(name, options.seconds, workdir)), flush=True)


if __name__ == "__main__":
    main()

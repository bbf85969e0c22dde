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
import kv_messages  # noqa: E402
from well_behaved import VALUE, Caller, WellBehaved  # noqa: E402

KEYS = 20_000
AFTER_SECONDS = 3


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
    caller = Caller(address, 60, tls)
    for begin in range(0, KEYS, 1_000):
        caller.call("BatchWrite", kv_messages.batch_write(
            (b"key%06d" % n, VALUE) for n in range(begin, begin + 1_000)))
    for n in range(200):
        caller.call("Put", kv_messages.put(b"large%06d" % n, b"V" * 500_000))
    caller.close()


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
        client = WellBehaved(server.server, tls, KEYS)
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

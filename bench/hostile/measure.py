#!/usr/bin/env python3
"""What the server holds out against: each attack of attacks.py beside a well-behaved client.

Prints a row of a Markdown table for each: the load; the memory of the server before, at its most
and three seconds after; of the well-behaved client the calls a second and the 99th percentile
during the attack, as shares of those before; and how long after it it was served as before.

  measure.py [--seconds N] [--brief] [ATTACK...]

Ends with an error when an attack did nothing, or nothing that the server saw, when its process died
or did not end, when the server ended, or when the well-behaved client got no answer.
"""

import argparse
import dataclasses
import os
import pathlib
import signal
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "system"))
sys.dont_write_bytecode = True
os.environ.setdefault("LODGEKV_BIN", str(ROOT / "build" / "release" / "bin"))

import attacker  # noqa: E402
import attacks  # noqa: E402
import certificates  # noqa: E402
import daemon  # noqa: E402
import kv_messages  # noqa: E402
from well_behaved import VALUE, Caller, WellBehaved  # noqa: E402

BATCH = 1_000


@dataclasses.dataclass
class Extent:
    """How much of everything, and for how long."""
    attack_seconds: float
    settle_seconds: float = 1
    before_seconds: float = 2
    after_seconds: float = 3
    pool_size: str = "1GiB"
    keys: int = 20_000
    large_values: int = 200
    # An attacker has its own machine: on this one it uses only idle time.
    niceness: int = 19
    attempts: int = 1


def brief():
    """Enough to see whether the attacks work, for which they must not wait for idle time."""
    return Extent(attack_seconds=0.2, settle_seconds=0, before_seconds=0.1, after_seconds=0,
                  pool_size="128MiB", keys=BATCH, large_values=10, niceness=0, attempts=7)


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


def fill(address, tls, extent):
    caller = Caller(address, 60, tls)
    for begin in range(0, extent.keys, BATCH):
        caller.call("BatchWrite", kv_messages.batch_write(
            (b"key%06d" % n, VALUE) for n in range(begin, begin + BATCH)))
    for n in range(extent.large_values):
        caller.call("Put", kv_messages.put(b"large%06d" % n, b"V" * 500_000))
    caller.close()


def measure(name, extent, workdir):
    flags = {"pool": workdir / "pool", "pool_size": extent.pool_size,
             "metrics_listen": f"127.0.0.1:{daemon.free_port()}",
             "health_listen": f"127.0.0.1:{daemon.free_port()}"}
    tls = None
    if attacks.ATTACKS[name].over_tls:
        tls = attacks.any_server()
        authority = certificates.Authority(workdir)
        pair = authority.issue("server")
        flags |= {"tls_cert_file": pair.cert, "tls_key_file": pair.key}
    server = daemon.Daemon(workdir, **flags)
    if tls:
        server.ctl_flags = ["--tls-ca", authority.cert]
    with server:
        fill(server.server, tls, extent)
        target = attacks.Target(server.server, server.admin, flags["health_listen"],
                                flags["metrics_listen"])
        client = WellBehaved(server.server, tls, extent.keys)
        try:
            return observe(name, extent, server, client, target)
        finally:
            client.stop()


def observe(name, extent, server, client, target):
    pid = server.process.pid
    time.sleep(extent.settle_seconds)
    begin = time.monotonic()
    time.sleep(extent.before_seconds)
    if not client.is_answered(begin):
        raise daemon.DaemonError(f"no answer before the attack:\n{server.tail()}")
    attacked = time.monotonic()
    calls_before, p99_before = client.between(begin, attacked)
    memory_before = rss_mib(pid)
    most = MostMemory(pid)
    outcome = attacker.attack(name, target, extent.attack_seconds, niceness=extent.niceness,
                              attempts=extent.attempts)
    failures = client.failures
    time.sleep(extent.after_seconds)
    memory_after = rss_mib(pid) if server.process.poll() is None else float("nan")
    calls, p99 = client.between(attacked, outcome.over)
    seen = {"load": outcome.line, "memory": (memory_before, most.stop(), memory_after),
            "calls": (calls_before, calls), "p99_ms": (p99_before * 1e3, p99 * 1e3),
            "refused": failures, "recovery": client.served_as_before(outcome.over, calls_before)}
    if server.process.poll() is not None:
        outcome.faults.append("the server ended")
    elif not client.is_answered(attacked):
        outcome.faults.append("the well-behaved client got no answer")
    return seen | {"faults": outcome.faults}


def row(name, seen):
    before, most, after = seen["memory"]
    calls_before, calls = seen["calls"]
    p99_before, p99 = seen["p99_ms"]
    return (f"| {name} | {seen['load']} | {before:.0f} / {most:.0f} / {after:.0f} "
            f"| {calls / calls_before:.2f} | {p99 / p99_before:.1f} ({p99:.1f} ms) "
            f"| {seen['refused']} | {seen['recovery']:.1f} |")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="how long each attack lasts")
    parser.add_argument("--brief", action="store_true",
                        help="only try that the attacks work, in a moment: no number means much")
    parser.add_argument("attacks", nargs="*", metavar="ATTACK")
    return parser.parse_args()


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    extent = brief() if options.brief else Extent(options.seconds)
    wanted = [name for name in attacks.ATTACKS
              if not options.attacks or any(part in name for part in options.attacks)]
    print("| Attack | Load | Memory before / most / after, MiB | Calls a second, share of before "
          "| 99th percentile, times that of before | Refused calls | Served as before after, s |")
    print("|---|---|---|---|---|---|---|", flush=True)
    faults = []
    for name in wanted:
        with daemon.folder() as workdir:
            seen = measure(name, extent, workdir)
        print(row(name, seen), flush=True)
        faults += [f"{name}: {fault}" for fault in seen["faults"]]
    sys.exit("\n".join(faults) or None)


if __name__ == "__main__":
    main()

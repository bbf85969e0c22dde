#!/usr/bin/env python3
"""How long a single Get takes beside others' large work, and whether anybody starves.

Starts lodgekvd with a filled LodgeTree in memory taken for persistent memory, and measures Gets,
one at a time, alone and beside each load, in turns, with the lean client; then so many busy
connections beside so many idle ones. Prints the tables of docs/benchmarks.md.

  fairness.py --bin FOLDER [--rounds N] [--seconds N]
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import servers

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, WINDOW_UPDATE = 4, 8
GOAL = 2  # p99 beside a load, times that alone
LARGE_VALUE = 16 << 20
LARGE_KEYS = 4
ALONE = "alone"
# Of the machine alone: what a Get waits for a processor, without any load of the server.
CONTROL = "two programs that only compute"
# Words for call_cost.
LOADS = {
    ALONE: None,
    CONTROL: None,
    "four clients that scan everything": ["--call", "scan_all", "--in-flight", 4,
                                          "--connections", 4],
    "BatchGets of 1,024": ["--call", "batch_get", "--batch", 1024, "--in-flight", 1],
    "BatchWrites of 1,024": ["--call", "batch_write", "--batch", 1024, "--in-flight", 1],
    "Puts of 16 MiB": ["--call", "put", "--value-bytes", LARGE_VALUE, "--in-flight", 1,
                       "--keys", LARGE_KEYS],
    "Gets of 16 MiB": ["--call", "get", "--in-flight", 1, "--keys", LARGE_KEYS],
}


def own_memory(pid):
    """Resident bytes without the pool, which is mapped."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise servers.ServerError("the server is gone")


class Fairness:
    def __init__(self, options, folder):
        self.options = options
        self.server = servers.Lodgekvd(folder / "server", options.bin, options.engine,
                                       options.pool_size)
        self.server.environment["PMEM_IS_PMEM_FORCE"] = "1"
        self.server.words += ["--max-value-size", "16MiB", "--max-batch-size", "64MiB",
                              "--max-connection-rate-per-peer", "0"]

    def client(self, *words, seconds):
        command = [self.options.bin / "call_cost", "--server", self.server.address,
                   "--server-pid", self.server.process.pid, "--seconds", seconds,
                   "--keys", self.options.keys, *words]
        if "--keys" in words:
            del command[command.index("--keys"):command.index("--keys") + 2]
        return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True,
                                preexec_fn=servers.die_with_parent)

    @staticmethod
    def finish(client):
        out, err = client.communicate(timeout=300)
        if client.returncode != 0:
            raise servers.ServerError(err.strip())
        return json.loads(out)

    @staticmethod
    def compute(stack):
        for _ in range(2):
            program = subprocess.Popen([sys.executable, "-c", "while True: pass"],
                                       preexec_fn=servers.die_with_parent)
            stack.callback(program.wait)
            stack.callback(program.kill)

    def window(self, name):
        """What the Gets saw, and what the load got done."""
        seconds, load = self.options.seconds, LOADS[name]
        with contextlib.ExitStack() as stack:
            beside = None
            if name == CONTROL:
                self.compute(stack)
            if load:
                beside = self.client(*load, "--filled", seconds=seconds + 1)
                stack.callback(beside.wait)
                stack.callback(beside.kill)
                time.sleep(0.3)
            seen = self.finish(self.client("--call", "get", "--in-flight", 1, "--filled",
                                           "--all-found", "--warm-up", 0.2, seconds=seconds))
            if beside:
                done = self.finish(beside)
                seen["load_calls"] = done["calls_per_second"]
                seen["load_mib"] = done["answer_bytes_per_second"] / (1 << 20)
        return seen

    def beside_loads(self):
        """{load: [what the Gets saw, by round]}"""
        seen = {name: [] for name in LOADS}
        for number in range(self.options.rounds):
            for name in list(LOADS)[::1 if number % 2 == 0 else -1]:
                if name.startswith("Gets of 16") and number == 0:
                    self.put_large_values()
                seen[name].append(self.window(name))
        return seen

    def put_large_values(self):
        self.finish(self.client(*LOADS["Puts of 16 MiB"], "--filled", seconds=1))

    # --- connections ---

    def idle_connections(self, stack):
        """Each has said hello as a client of gRPC does, and been answered."""
        host, port = self.server.address.split(":")
        for _ in range(self.options.idle):
            connection = stack.enter_context(socket.create_connection((host, int(port)), 60))
            connection.sendall(PREFACE + bytes([0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]))
            connection.recv(1)

    def connections(self):
        options, pid = self.options, self.server.process.pid
        time.sleep(2)  # what was freed goes back to the system
        before = own_memory(pid)
        with contextlib.ExitStack() as stack:
            self.idle_connections(stack)
            time.sleep(2)
            with_idle = own_memory(pid)
            client = self.client("--call", "get", "--in-flight", options.busy, "--connections",
                                 options.busy, "--filled", "--all-found", seconds=options.seconds)
            most = with_idle
            while client.poll() is None:
                most = max(most, own_memory(pid))
                time.sleep(0.02)
            busy = self.finish(client)
        return {"idle_bytes": (with_idle - before) / options.idle,
                "busy_bytes": (most - with_idle) / options.busy,
                "least": busy["least_calls_of_a_connection"],
                "most": busy["most_calls_of_a_connection"], "p99_us": busy["p99_us"],
                "calls_per_second": busy["calls_per_second"]}

    def run(self):
        with self.server:
            self.finish(self.client("--call", "get", seconds=0.1))
            seen = self.beside_loads()
            return seen, self.connections()


def text_of(options, seen, connections):
    def median(rounds, name):
        return statistics.median(each[name] for each in rounds)

    lines = [f"| {options.engine}, Gets one at a time | calls a second | p50, us | p99, us (least "
             "to most) | p99, times that alone | the load: calls a second; MiB of answers |",
             "|---|---|---|---|---|---|"]
    for name, rounds in seen.items():
        times = statistics.median(each["p99_us"] / alone["p99_us"]
                                  for each, alone in zip(rounds, seen[ALONE]))
        p99s = [each["p99_us"] for each in rounds]
        verdict = "" if name == ALONE else (", met" if times <= GOAL else ", missed")
        load = "" if LOADS[name] is None else (f"{median(rounds, 'load_calls'):,.0f}; "
                                               f"{median(rounds, 'load_mib'):,.0f}")
        beside = "" if name == ALONE else "beside "
        lines.append(f"| {beside}{name} | {median(rounds, 'calls_per_second'):,.0f} "
                     f"| {median(rounds, 'p50_us'):,.0f} | {statistics.median(p99s):,.0f} "
                     f"({min(p99s):,.0f} to {max(p99s):,.0f}) | {times:.1f}{verdict} | {load} |")
    lines += ["", f"{options.busy} busy connections beside {options.idle:,} idle ones: "
              f"{connections['calls_per_second']:,.0f} Gets a second, p99 "
              f"{connections['p99_us']:,.0f} us; of a connection {connections['least']:,} to "
              f"{connections['most']:,} calls. Memory of the server: "
              f"{connections['idle_bytes'] / 1024:.1f} KiB for an idle connection, "
              f"{connections['busy_bytes'] / 1024:.1f} KiB more for a busy one."]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("/dev/shm"))
    parser.add_argument("--engine", default="lodgetree")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of each window")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--pool-size", default="1GiB")
    parser.add_argument("--idle", type=int, default=1_000, help="connections")
    parser.add_argument("--busy", type=int, default=100, help="connections")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fairness-", dir=options.dir))
    try:
        load = "%.1f" % os.getloadavg()[0]
        text = text_of(options, *Fairness(options, folder).run())
        print(f"load {load} before, {os.getloadavg()[0]:.1f} after the run\n\n{text}")
    except servers.ServerError as error:
        sys.exit(f"fairness: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

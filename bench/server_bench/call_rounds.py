#!/usr/bin/env python3
"""The daemon beside a gRPC server that does nothing: every kind of call, one run, one table.

Starts noop_server and lodgekvd with the engines `null`, LodgeTree and LB+-Tree, whose pools lie in
memory taken for persistent memory with real flushes; fills them, and measures each row in windows
that the servers take in turns, with a lean client and with one of gRPC's. Then it ends them and
removes their files. The report goes to standard output, progress to standard error.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import call_figures
import servers

SPARE_SECONDS = 120  # that a client gets beside the time it measures
BATCH = 100
VALUE_BYTES = 100  # of the records that call_cost puts
SCANS = 4
SCAN_SPARE_SECONDS = 0.5  # that scans go on, as the client beside them starts after them
NULL = "null"
ENGINES = ("lodgetree", "lbtree")


@dataclasses.dataclass(frozen=True)
class Row:
    """A kind of call with so many in flight. `client`: lean, or busy, as a stub of gRPC is."""

    call: str
    in_flight: int
    client: str = "lean"
    beside_scans: bool = False

    @property
    def text(self):
        words = {"get": "Get", "put": "Put", "batch_get": f"BatchGet of {BATCH}",
                 "batch_write": f"BatchWrite of {BATCH}", "scan": f"Scan, a page of {BATCH}"}
        return words[self.call] + (f" beside {SCANS} scans of everything"
                                   if self.beside_scans else "")

    def is_for(self, server):
        """Whether the row says something of the server."""
        if isinstance(server, servers.Noop):
            # Full answers matter where they are large.
            return not self.beside_scans and (not server.full or
                                              self.call in ("get", "batch_get", "scan")
                                              and self.client == "lean")
        return server.engine != NULL or not (self.call == "scan" or self.beside_scans)


ROWS = ([Row(call, in_flight) for call in ("get", "put") for in_flight in (1, 8, 64)] +
        [Row("batch_get", 8), Row("batch_write", 8), Row("scan", 8),
         Row("get", 8, beside_scans=True)] +
        [Row(call, in_flight, "busy") for call in ("get", "put") for in_flight in (1, 8, 64)])


def say(text):
    print(f"call_rounds: {text}", file=sys.stderr, flush=True)


class Rounds:
    """results[row, server's name] has what the client said for each round."""

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.results = {}

    def run(self):
        with contextlib.ExitStack() as stack:
            running = [stack.enter_context(server) for server in self.servers()]
            for server in running:
                self.fill(server)
            for number in range(self.options.rounds):
                for row in ROWS:
                    for server in running if number % 2 == 0 else running[::-1]:
                        if row.is_for(server):
                            self.window(row, server, number)

    def servers(self):
        """Their names differ, and name their folders."""
        binaries = self.options.bin
        yield servers.Noop(self.folder / "noop", binaries)
        yield servers.Noop(self.folder / "full", binaries, full=BATCH)
        for engine in (NULL, *ENGINES):
            server = servers.Lodgekvd(self.folder / engine, binaries, engine,
                                      self.options.pool_size)
            server.environment["PMEM_IS_PMEM_FORCE"] = "1"
            yield server

    def fill(self, server):
        """Puts every key; every client after this one finds them."""
        if server.name not in ENGINES:
            return
        begin = time.monotonic()
        self.finish(self.start(server, "get", 8, 0.1, filled=False))
        say(f"{server.name}: {self.options.keys:,} keys in {time.monotonic() - begin:.1f} s")

    def window(self, row, server, number):
        with contextlib.ExitStack() as stack:
            scans = None
            if row.beside_scans:
                seconds = self.options.seconds + self.options.warm_up + SCAN_SPARE_SECONDS
                scans = self.start(server, "scan_all", SCANS, seconds, connections=SCANS)
                stack.callback(scans.wait)
                stack.callback(scans.kill)
            result = self.finish(self.client_of(row, server, number))
            if scans:
                result["scanned_bytes_per_second"] = self.finish(scans)["answer_bytes_per_second"]
        self.check(row, server, result)
        say(f"round {number + 1}: {row.client}: {row.text}, {row.in_flight} in flight: "
            f"{server.name}: {result['calls_per_second']:,.0f}/s")
        self.results.setdefault((row, server.name), []).append(result)

    def client_of(self, row, server, number):
        seed = 1 + number
        if row.client == "busy":
            return self.start_busy(server, row, seed)
        return self.start(server, row.call, row.in_flight, self.options.seconds, seed,
                          connections=min(row.in_flight, self.options.connections))

    def start(self, server, call, in_flight, seconds, seed=1, connections=1, filled=True):
        """The lean client."""
        options = self.options
        words = [options.bin / "call_cost", "--server", server.address, "--server-pid",
                 server.process.pid, "--call", call, "--batch", BATCH, "--in-flight", in_flight,
                 "--connections", connections, "--keys", options.keys, "--seed", seed,
                 "--seconds", seconds]
        if call != "scan_all":
            words += ["--warm-up", options.warm_up]
        if filled:
            words += ["--filled"]
        if self.finds(server):
            words += ["--all-found"]
        return self.popen(words)

    @staticmethod
    def finds(server):
        """Whether its answers say that all was found."""
        return server.name not in (servers.NOOP, NULL)

    def start_busy(self, server, row, seed):
        """The client of gRPC. Gets are YCSB's workload C, of records that are chosen uniformly."""
        options = self.options
        words = [options.bin / "server_bench", "--server", server.address, "--in-flight",
                 row.in_flight, "--connections", options.connections, "--keys", options.keys,
                 "--seed", seed, "--warm-up", options.warm_up, "--seconds", options.seconds]
        if row.call == "get":
            words += ["--workload", "c", "--distribution", "uniform", "--value-bytes", VALUE_BYTES]
            if not self.finds(server):
                words += ["--any-answer"]
        return self.popen(words)

    @staticmethod
    def popen(words):
        return subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True,
                                preexec_fn=servers.die_with_parent)

    def finish(self, client):
        try:
            out, err = client.communicate(timeout=self.options.seconds + SPARE_SECONDS)
        except BaseException:
            client.kill()
            client.wait()
            raise
        if client.returncode != 0:
            raise RuntimeError(err.strip())
        result = json.loads(out)
        for name in ("puts", "operations"):  # as server_bench calls them
            if "calls" not in result and name in result:
                result |= {"calls": result[name], "calls_per_second": result[f"{name}_per_second"]}
        return result

    @staticmethod
    def check(row, server, result):
        """The lean client itself fails at an answer that is too small or not OK."""
        if result["calls"] < row.in_flight:
            raise RuntimeError(f"{server.name}: {row.text}: {result['calls']} calls were answered")
        if server.process.poll() is not None:
            raise RuntimeError(f"{server.name} ended:\n{server.log_text()[-2000:]}")


def environment(options):
    asked = subprocess.run([options.bin / "server_bench", "--environment"], capture_output=True,
                           text=True, timeout=60, check=True,
                           env=dict(os.environ, PMEM_IS_PMEM_FORCE="1")).stdout
    rows = [("load", "%.1f, %.1f, %.1f before the run" % os.getloadavg()),
            ("options", f"{options.rounds} rounds, windows of {options.seconds:g} s after "
                        f"{options.warm_up:g} s, {options.keys:,} keys, "
                        f"{options.connections} connections")]
    return asked.rstrip() + "".join(f"\n  {name:<18}  {value}" for name, value in rows)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("/dev/shm"),
                        help="memory file system for the pools [/dev/shm]")
    parser.add_argument("--quick", action="store_true", help="under a minute, but not precise")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="of each window")
    parser.add_argument("--warm-up", type=float, default=0.3, help="seconds before each window")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--connections", type=int, default=4,
                        help="of a client, as far as it has as many calls in flight")
    parser.add_argument("--pool-size", default="1GiB")
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE", help="the tables")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="every window")
    if "--quick" in arguments:
        parser.set_defaults(rounds=1, seconds=0.2, warm_up=0.05, keys=20_000, pool_size="256MiB")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.seconds <= 0 or options.keys < 1_000:
        parser.error("--rounds is at least 1, --seconds above 0, --keys at least 1000")
    options.bin = options.bin.resolve()
    return options


def to_json(said, report, results):
    windows = [{**dataclasses.asdict(row), "server": name, "round": number + 1, **result}
               for (row, name), rounds in results.items()
               for number, result in enumerate(rounds)]
    goals = [{**dataclasses.asdict(goal), "verdict": goal.verdict()} for goal in report.goals()]
    return json.dumps({"environment": said.splitlines(), "goals": goals, "windows": windows},
                      indent=1)


def main():
    options = parse(sys.argv[1:])
    # An end by a signal removes what was begun as well; Ctrl-C does so by itself.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: sys.exit(
            f"call_rounds: ended by {signal.Signals(received).name}"))
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="call-rounds-", dir=options.dir))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        said = environment(options)
        rounds = Rounds(options, folder)
        rounds.run()
        said += "\n  %-18s  %.1f, %.1f, %.1f" % ("load after the run", *os.getloadavg())
    report = call_figures.Report(rounds.results, ENGINES)
    text = f"```\n{said}\n```\n\n{report.text()}\n"
    if options.markdown:
        options.markdown.write_text(text)
    if options.json:
        options.json.write_text(to_json(said, report, rounds.results))
    print(text, end="")


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, servers.ServerError) as error:
        sys.exit(f"call_rounds: {error}")
    except KeyboardInterrupt:
        sys.exit("call_rounds: interrupted")

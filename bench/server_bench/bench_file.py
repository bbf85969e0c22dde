#!/usr/bin/env python3
"""LodgeKV on an ordinary file, beside the servers that people compare it with: one run, one table.

Starts lodgekvd with each persistent engine, lodgekvd with the engine that does nothing, and etcd
and Redis where they are installed, all on this machine, with every put synced; measures them in
turns; ends them and removes their files. The report goes to standard output, progress to standard
error.
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

import figures
import journal_rounds
import load_rounds
import put_rounds
import servers

SPARE_SECONDS = 120  # that a client gets beside the time it measures
PARTS = ("puts", "load", "checkpoint", "replay")


@dataclasses.dataclass
class Quick:
    """What --quick sets."""

    rounds: int = 1
    seconds: float = 0.5
    records: int = 10_000
    load_seconds: float = 2
    journal_seconds: float = 1


class Bench:
    """What the parts share: the options, the folder, the programs, one client at a time."""

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.binaries = options.bin
        self.client = options.bin / "server_bench"
        self.engines = options.engines or self.ask("--engines").split()
        self.missing = servers.missing_peers()
        self.started = 0

    def ask(self, flag):
        return subprocess.run([self.client, flag], capture_output=True, text=True, timeout=60,
                              check=True).stdout

    @staticmethod
    def say(text):
        print(f"bench_file: {text}", file=sys.stderr, flush=True)

    def lodgekvd(self, engine):
        self.started += 1
        return servers.Lodgekvd(self.folder / f"{engine}-{self.started}", self.binaries, engine,
                                self.options.pool_size, self.options.allow_memory)

    def put_servers(self):
        return ([self.lodgekvd(engine) for engine in [*self.engines, put_rounds.NO_OP]] +
                put_rounds.peers_of(self.folder, self.missing))

    def start_put(self, server, in_flight, seconds, seed=1, samples=None):
        words = [self.client, "--protocol", server.protocol, "--server", server.address,
                 "--in-flight", str(in_flight), "--seconds", str(seconds), "--seed", str(seed),
                 "--warm-up", str(min(0.5, seconds / 4))]
        if samples:
            words += ["--samples", samples]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                preexec_fn=servers.die_with_parent)

    @staticmethod
    def finish_put(client, seconds=SPARE_SECONDS):
        out, err = client.communicate(timeout=seconds)
        if client.returncode != 0:
            raise RuntimeError(err.strip())
        return json.loads(out)

    def put(self, server, in_flight, seed):
        seconds = self.options.seconds
        return self.finish_put(self.start_put(server, in_flight, seconds, seed),
                               seconds + SPARE_SECONDS)


def environment(bench):
    """The environment as engine_bench tells it, and what else the figures depend on."""
    lines = [line for line in bench.ask("--environment").rstrip().split("\n")
             if "PMEM_IS_PMEM_FORCE" not in line and "huge pages" not in line]
    rows = [("file system", servers.file_system_of(bench.folder)),
            ("load", "%.1f, %.1f, %.1f before the run" % os.getloadavg())]
    for peer in servers.PEERS:
        rows.append((peer.name, bench.missing.get(peer.name) or servers.version_of(peer.program)))
    options = bench.options
    rows.append(("options", f"{options.rounds} rounds, {options.seconds:g} s a phase, "
                            f"at most {options.records:,} records and {options.load_seconds:g} s "
                            f"a load, {options.journal_seconds:g} s of puts for the journal"))
    return "\n".join(lines + [f"  {name:<18}  {value}" for name, value in rows])


CLIENT_NOTE = """\
Client and servers share the machine. Keys of 32 bytes, drawn uniformly of a million, values of 100;
every put is synced before it is answered, but for the no-op's. Medians, and the range of all
rounds."""


def run_parts(bench):
    parts = {"puts": put_rounds.PutRounds, "load": load_rounds.LoadRounds,
             "checkpoint": journal_rounds.CheckpointRounds, "replay": journal_rounds.ReplayRounds}
    done = []
    for name in bench.options.parts:
        part = parts[name](bench)
        part.run()
        done.append(part)
    return done


def report(bench, done):
    lines = ["```", bench.environment, "```", "", CLIENT_NOTE, ""]
    for part in done:
        if hasattr(part, "table"):
            lines += [part.table(), ""]
    lines.append(figures.goals_table([goal for part in done for goal in part.goals()]))
    return "\n".join(lines)



def positive(kind):
    def read(text):
        value = kind(text)
        if value <= 0:
            raise argparse.ArgumentTypeError(f"{text} is not above 0")
        return value
    return read


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True,
                        help="folder of lodgekvd, lodgectl and server_bench")
    parser.add_argument("--dir", type=pathlib.Path,
                        help="folder on a disk for all data (default: TMPDIR, else beside --bin)")
    parser.add_argument("--quick", action="store_true", help="under a minute, but not precise")
    parser.add_argument("--rounds", type=positive(int), default=3)
    parser.add_argument("--seconds", type=positive(float), default=5, help="of each phase of puts")
    parser.add_argument("--records", type=positive(int), default=1_000_000,
                        help="most that lodgectl loads")
    parser.add_argument("--load-seconds", type=positive(float), default=120,
                        help="longest time of a load; a longer one is cut off")
    parser.add_argument("--journal-seconds", type=positive(float), default=20,
                        help="of puts for each figure of the journal")
    parser.add_argument("--pool-size", help="as lodgekvd has it (default: its own)")
    parser.add_argument("--engines", type=lambda text: text.split(","),
                        help="those alone (default: every persistent one of the build)")
    parser.add_argument("--parts", type=lambda text: text.split(","), default=list(PARTS),
                        help=f"those alone of {','.join(PARTS)}")
    parser.add_argument("--allow-memory", action="store_true",
                        help="let --dir be a memory file system, where a sync costs nothing")
    if "--quick" in arguments:
        parser.set_defaults(**dataclasses.asdict(Quick()))
    options = parser.parse_args(arguments)
    for part in options.parts:
        if part not in PARTS:
            parser.error(f"--parts names '{part}'; there are {', '.join(PARTS)}")
    options.bin = options.bin.resolve()
    options.dir = options.dir or pathlib.Path(os.environ.get("TMPDIR") or options.bin.parent)
    return options


def check_folder(options):
    if not options.dir.is_dir():
        sys.exit(f"bench_file: --dir: {options.dir} is no folder")
    kind = servers.file_system_of(options.dir)
    if kind in servers.MEMORY and not options.allow_memory:
        sys.exit(f"bench_file: {options.dir} is on a memory file system ({kind}), where a sync "
                 "costs nothing: name a folder on a disk with --dir, or give --allow-memory")


def main():
    options = parse(sys.argv[1:])
    check_folder(options)
    # An end by a signal removes what was begun as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench_file: ended by SIGTERM"))
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-file-", dir=options.dir))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        bench = Bench(options, folder)
        for name, why in bench.missing.items():
            bench.say(f"{name}: {why}")
        bench.environment = environment(bench)
        print(report(bench, run_parts(bench)))


if __name__ == "__main__":
    main()

"""What the journal of a pool on an ordinary file costs beside its syncs: puts while a checkpoint
runs, and the replay after a kill."""

import array
import bisect
import contextlib
import time

import figures

CHECKPOINT_SECONDS = "lodgekv_journal_checkpoint_seconds_total"
USED_BYTES = "lodgekv_journal_used_bytes"
REPLAY_SECONDS = "lodgekv_journal_replay_seconds"
REPLAYED_GROUPS = "lodgekv_journal_groups_replayed"
SAMPLE_SECONDS = 0.05
IN_FLIGHT = 64
# So many puts of either kind make a p99 that means something.
LEAST_PUTS = 1_000
# The slowest there is, so that the journal fills.
CHECKPOINT_RATE = "1MiB"
FULL_SHARE = 0.9
MIB = 1 << 20


def p99(latencies):
    return sorted(latencies)[int(len(latencies) * 0.99)]


class Checkpoints:
    """When checkpoints ran, by what the metric of their time says; it grows when one has ended."""

    def __init__(self):
        self.intervals = []  # ascending, in nanoseconds of CLOCK_MONOTONIC
        self.last = None

    def add(self, before_ns, now_ns, seconds):
        """`seconds`: the metric, somewhere between the two moments."""
        if self.last is not None and seconds > self.last[1]:
            took_ns = int((seconds - self.last[1]) * 1e9)
            self.intervals.append((self.last[0] - took_ns, now_ns))
        self.last = (before_ns, seconds)

    def overlap(self, begin_ns, end_ns):
        place = bisect.bisect_right(self.intervals, (end_ns, 0)) - 1
        return place >= 0 and self.intervals[place][1] >= begin_ns


def split(samples, checkpoints):
    """Latencies of the puts under way while a checkpoint ran, and of the others."""
    during, others = [], []
    for answered_ns, latency_ns in zip(samples[::2], samples[1::2]):
        under_way = checkpoints.overlap(answered_ns - latency_ns, answered_ns)
        (during if under_way else others).append(latency_ns)
    return during, others


class CheckpointRounds:
    """p99 of a put while a checkpoint runs as a multiple of p99 without, by engine."""

    def __init__(self, bench):
        self.bench = bench
        self.ratios = {engine: [] for engine in bench.engines}
        self.why = {}

    def run(self):
        for _ in range(self.bench.options.rounds):
            for engine in self.bench.engines:
                if engine not in self.why:
                    self.measure(engine)

    def measure(self, engine):
        path = self.bench.folder / "samples"
        with self.bench.lodgekvd(engine) as server:
            if CHECKPOINT_SECONDS not in server.metrics():
                self.why[engine] = f"no metric {CHECKPOINT_SECONDS}"
                return
            checkpoints = Checkpoints()
            client = self.bench.start_put(server, IN_FLIGHT, self.bench.options.journal_seconds,
                                          samples=path)
            while client.poll() is None:
                begin = time.monotonic_ns()
                checkpoints.add(begin, time.monotonic_ns(), server.metrics()[CHECKPOINT_SECONDS])
                time.sleep(SAMPLE_SECONDS)
            self.bench.finish_put(client)
        samples = array.array("Q", path.read_bytes())
        path.unlink()
        during, others = split(samples, checkpoints)
        self.bench.say(f"{engine}: {len(checkpoints.intervals)} checkpoints, {len(during)} puts "
                       f"beside them, {len(others)} others")
        if min(len(during), len(others)) < LEAST_PUTS:
            self.why[engine] = (f"of {len(during) + len(others):,} puts {len(during):,} were under "
                                "way while a checkpoint ran")
            return
        self.ratios[engine].append(p99(during) / p99(others))

    def goals(self):
        return [figures.Goal(f"{engine}: p99 of a put while a checkpoint runs, of p99 without",
                             values, most=5, why=self.why.get(engine, ""))
                for engine, values in self.ratios.items()]


class ReplayRounds:
    """How much longer a start takes after a kill under load than after an orderly end."""

    def __init__(self, bench):
        self.bench = bench
        self.added = {engine: [] for engine in bench.engines}
        self.notes = {}

    def run(self):
        for _ in range(self.bench.options.rounds):
            for engine in self.bench.engines:
                self.measure(engine)

    def measure(self, engine):
        server = self.bench.lodgekvd(engine)
        server.environment["LODGEKV_CHECKPOINT_RATE"] = CHECKPOINT_RATE
        with server:
            used = self.fill(server)
            server.kill()
            killed = server.start()
            metrics = server.metrics()
            server.stop()
            clean = server.start()
        self.added[engine].append(killed - clean)
        note = f"{killed:.2f} s after a kill, {clean:.2f} s after a clean shutdown"
        if REPLAY_SECONDS in metrics:
            note += (f"; {used / MIB:.0f} MiB of journal in {metrics[REPLAYED_GROUPS]:,.0f} groups "
                     f"replayed in {metrics[REPLAY_SECONDS]:.2f} s")
        self.notes[engine] = note
        self.bench.say(f"{engine}: {note}")

    def fill(self, server):
        """Puts until the journal holds about as much as it ever does; what it then holds."""
        seconds = self.bench.options.journal_seconds
        client = self.bench.start_put(server, 256, 2 * seconds)
        begin = time.monotonic()
        most = used = 0
        try:
            while client.poll() is None:
                used = server.metrics().get(USED_BYTES, 0)
                if time.monotonic() - begin > seconds and used >= FULL_SHARE * most:
                    break
                most = max(used, most)
                time.sleep(SAMPLE_SECONDS)
        finally:
            client.kill()
            with contextlib.suppress(OSError):
                client.communicate(timeout=10)
        return used

    def goals(self):
        return [figures.Goal(f"{engine}: a start after a kill, longer than after a clean shutdown",
                             values, most=1, unit=" s", note="last: " + self.notes[engine])
                for engine, values in self.added.items()]

"""`lodgectl load` into a new pool: random records, the words of the dictionary, paths."""

import random
import re
import subprocess

import figures
from shared import metrics_page, records

FIND_SECONDS = 300
KEY_DIGITS = 32
VALUE_DIGITS = 100
BATCHES = metrics_page.sample("lodgekv_rpc_latency_seconds_count", rpc="BatchWrite", code="OK")
WRITTEN = "lodgekv_write_operations_total"


def random_lines(count):
    source = random.Random(1)
    for _ in range(count):
        text = source.randbytes((KEY_DIGITS + VALUE_DIGITS) // 2).hex().encode()
        yield text[:KEY_DIGITS] + b"\t" + text[KEY_DIGITS:]


def path_keys():
    found = subprocess.run(["find", "/usr", "-xdev", "-print0"], stdout=subprocess.PIPE,
                           timeout=FIND_SECONDS, check=True)
    return found.stdout.split(b"\0")


def lines_of(keys, most):
    keys = [key for key in keys if key][:most]
    return [records.line_of(key, records.value_of(key)) for key in keys]


def syncs(metrics, engine):
    """Of the journal; of a build without its metrics, fences."""
    journal = metrics.get("lodgekv_journal_syncs_total")
    return metrics.value("lodgekv_fences_total", engine=engine) if journal is None else journal


class LoadRounds:
    """rates[engine, input] and syncs_a_batch[engine, input] have a value for each round."""

    def __init__(self, bench):
        self.bench = bench
        self.inputs = {}
        self.rates = {}
        self.syncs_a_batch = {}
        self.cut = set()  # those that were not finished in time

    def prepare(self):
        most = self.bench.options.records
        self.add_input("random", random_lines(most))
        if records.WORDS.exists():
            self.add_input("words", lines_of(records.WORDS.read_bytes().split(b"\n"), most))
        else:
            self.bench.say(f"words: no {records.WORDS} (apt-get install wamerican), skipped")
        self.add_input("paths", lines_of(path_keys(), most))

    def add_input(self, name, lines):
        path = self.bench.folder / f"{name}.tsv"
        records.write_lines(path, lines)
        self.inputs[name] = path

    def run(self):
        self.prepare()
        for _ in range(self.bench.options.rounds):
            for name, path in self.inputs.items():
                for engine in self.bench.engines:
                    self.load(engine, name, path)
        for path in self.inputs.values():
            path.unlink()

    def load(self, engine, name, path):
        with self.bench.lodgekvd(engine) as server:
            before = server.metrics()
            rate = self.load_into(server, name, path)
            after = server.metrics()
        if rate is None:
            self.cut.add((engine, name))
            rate = (after[WRITTEN] - before[WRITTEN]) / self.bench.options.load_seconds
        batches = after[BATCHES] - before[BATCHES]
        a_batch = (syncs(after, engine) - syncs(before, engine)) / max(batches, 1)
        self.bench.say(f"{engine}: {name}: {rate:,.0f} records/s, {a_batch:.2f} syncs a batch")
        self.rates.setdefault((engine, name), []).append(rate)
        self.syncs_a_batch.setdefault((engine, name), []).append(a_batch)

    def load_into(self, server, name, path):
        """Records a second; None when the time was over before the file."""
        command = [self.bench.binaries / "lodgectl", "--server", server.address, "load", path]
        try:
            loaded = subprocess.run(command, capture_output=True, text=True, check=False,
                                    timeout=self.bench.options.load_seconds)
        except subprocess.TimeoutExpired:
            return None
        found = re.search(r"loaded \d+ records in .* s \((\d+)/s\)", loaded.stdout)
        if loaded.returncode != 0 or not found:
            raise RuntimeError(f"lodgectl load of {name}: {loaded.stderr.strip()}")
        return float(found.group(1))

    def table(self):
        rows = []
        for engine, name in self.rates:
            row = [engine, name + (", cut off" if (engine, name) in self.cut else ""),
                   figures.spread(self.rates[engine, name]),
                   figures.spread(self.syncs_a_batch[engine, name])]
            rows.append(row)
        return figures.table(["engine", "records", "records/s", "syncs a batch"], rows)

    def goals(self):
        first, *others = self.bench.engines
        rates = self.rates[first, "random"]
        goals = [figures.Goal(f"{first}: `lodgectl load` of random records", rates,
                              least=150_000, unit="/s"),
                 figures.Goal(f"{first}: syncs a batch of that load",
                              self.syncs_a_batch[first, "random"], most=3)]
        for engine in others:
            ratios = [mine / its for mine, its in zip(self.rates[engine, "random"], rates)]
            goals.append(figures.Goal(f"{engine}: that load, rate of {first}'s", ratios,
                                      least=0.5))
        return goals

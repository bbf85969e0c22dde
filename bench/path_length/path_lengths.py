"""Instructions and stores of an engine's paths, counted by callgrind: how they are counted, kept in
path_lengths.json, shown in docs/benchmarks.md, and compared.

The program is run twice, see call_counter.h: as it is, to note which way each call takes, and under
callgrind, which counts each call in a function that is named after its path and way.
"""

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
RECORD = FOLDER / "path_lengths.json"
PAGE = FOLDER.parents[1] / "docs/benchmarks.md"
BEGIN = "<!-- path lengths: written by scripts/path_lengths --write -->"
END = "<!-- end of path lengths -->"
KEY_FORMATS = ("fixed64", "bytes")
CALLGRIND = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--toggle-collect=*Counted<*",
             # Stores are counted by its model of a cache, whose size must not be this machine's.
             "--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=33554432,16,64"]
# Of what is recorded. Below LEAST a path is shorter than recorded: a gain that is to be kept.
MOST = 1.05
LEAST = 0.90
SLACK = 4.0  # instructions or stores that are neither
FEWEST_CALLS = 10  # a way that is taken less often depends on chance


class CannotCount(Exception):
    """For people, in one line."""


@dataclasses.dataclass(frozen=True)
class Length:
    """Means, of one operation."""

    instructions: float
    stores: float

    def text(self):
        return f"{self.instructions:,.0f} / {self.stores:,.0f}"


# --- counting -----------------------------------------------------------------

def read_slots(text):
    """Of a file of callgrind's: (calls, instructions, stores) of each Counted<slot>, with all that
    it called."""
    names, slots = {}, {}
    lines = text.splitlines()
    events = next(line for line in lines if line.startswith("events:")).split()[1:]
    instructions, stores = events.index("Ir"), events.index("Dw")
    for i, line in enumerate(lines):
        found = re.match(r"(c?)fn=\((\d+)\)(?: (.*))?$", line)
        if not found:
            continue
        if found[3]:
            names[found[2]] = found[3]
        slot = re.search(r"\bCounted<(\d+)", names[found[2]])
        if not found[1] or not slot:
            continue
        calls = int(lines[i + 1].removeprefix("calls=").split()[0])
        cost = [int(word) for word in lines[i + 2].split()[1:]]
        cost += [0] * (len(events) - len(cost))
        old = slots.get(int(slot[1]), (0, 0, 0))
        slots[int(slot[1])] = (old[0] + calls, old[1] + cost[instructions], old[2] + cost[stores])
    return slots


def lengths_of(rows, slots):
    """Of an operation, without what counting itself costs. Paths with several ways have a mean."""
    calls, instructions, stores = slots[0]
    own = instructions / calls, stores / calls
    lengths, sums = {}, {}
    for row in rows:
        calls, instructions, stores = slots[row["slot"]]
        if calls != row["calls"]:
            raise CannotCount(f"callgrind saw {calls} calls of {row['path']}, the program made "
                              f"{row['calls']}")
        if row["path"] == "nothing":
            continue
        cost = (instructions - own[0] * calls, stores - own[1] * calls, row["operations"])
        sums.setdefault(row["path"], []).append((row["way"], cost))
    for path, ways in sums.items():
        whole = tuple(sum(cost[i] for _, cost in ways) for i in range(3))
        lengths[path] = Length(whole[0] / whole[2], whole[1] / whole[2])
        if len(ways) == 1:
            continue
        for way, cost in ways:
            if cost[2] >= FEWEST_CALLS:
                lengths[f"{path}, {way or 'short'}"] = Length(cost[0] / cost[2], cost[1] / cost[2])
    return lengths


def run(command, environment):
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise CannotCount(f"{command[0]} ended with {result.returncode}: "
                          f"{result.stderr.strip().splitlines()[-1:]}")
    return result.stdout


def count(program, engine, key_format, keys=None):
    """Length by name: a path, or \"path, way\"."""
    environment = dict(os.environ, PMEM_IS_PMEM_FORCE="1")
    memory = pathlib.Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        command = [str(program), f"--engine={engine}", f"--key-format={key_format}",
                   f"--pool={folder}/pool", f"--ways={folder}/ways"]
        command += [f"--keys={keys}"] if keys else []
        run([*command, "--first"], environment)
        out = pathlib.Path(folder, "callgrind")
        try:
            printed = run([*CALLGRIND, f"--callgrind-out-file={out}", *command], environment)
        except FileNotFoundError:
            raise CannotCount("valgrind is not installed: scripts/install_packages") from None
        return lengths_of(json.loads(printed.splitlines()[-1]), read_slots(out.read_text()))


def describe(program):
    """Compiler and kind of the build, and its engines."""
    build = json.loads(run([str(program), "--list"], None))
    return f"{build['compiler']}, {build['build_type']}", build["engines"]


# --- the record ---------------------------------------------------------------

def read_record():
    return json.loads(RECORD.read_text()) if RECORD.exists() else {"engines": {}}


def write_record(record):
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


def record_lengths(record, engine, key_format, lengths):
    record["engines"].setdefault(engine, {})[key_format] = {
        name: [round(length.instructions, 1), round(length.stores, 1)]
        for name, length in lengths.items()}


def recorded_lengths(record, engine, key_format):
    return {name: Length(*pair)
            for name, pair in record["engines"].get(engine, {}).get(key_format, {}).items()}


def compare(recorded, counted):
    """What is not as recorded, in words; nothing: all is."""
    for name in sorted(recorded.keys() | counted.keys()):
        if name not in recorded or name not in counted:
            yield f"{name}: only {'counted' if name in counted else 'recorded'}"
            continue
        for what in ("instructions", "stores"):
            old, new = getattr(recorded[name], what), getattr(counted[name], what)
            if new > old * MOST + SLACK:
                yield (f"{name}: {new:.1f} {what}, {new / old - 1:.0%} more than the {old:.1f} "
                       "recorded")
            elif new < old * LEAST - SLACK:
                yield (f"{name}: {new:.1f} {what}, fewer than the {old:.1f} recorded: record the "
                       "gain, so that it stays")


# --- the page -----------------------------------------------------------------

def table(record):
    """As docs/benchmarks.md has it."""
    columns = [(engine, key_format) for engine in record["engines"] for key_format in KEY_FORMATS]
    by_column = [recorded_lengths(record, *column) for column in columns]
    names = list(dict.fromkeys(name for lengths in by_column for name in lengths))
    paths = list(dict.fromkeys(name.split(",")[0] for name in names))
    lines = ["| | " + " | ".join(f"{engine}, `{form}`" for engine, form in columns) + " |",
             "|---|" + "---|" * len(columns)]
    for path in paths:
        for name in sorted((n for n in names if n.split(",")[0] == path), key=len):
            cells = [lengths[name].text() if name in lengths else "-" for lengths in by_column]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page_with(page, record):
    """The page with the table of the record between its marks."""
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    return page[:begin] + "\n" + table(record) + "\n" + page[end:]

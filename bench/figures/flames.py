#!/usr/bin/env python3
"""Draws flame graphs of the server: where its time goes in a Put, a Session's puts, a BatchWrite.

Starts lodgekvd with a filled LodgeTree in memory taken for persistent memory, has the lean client
of bench/server_bench call it, and samples the server's stacks with perf (Debian: linux-perf, and
kernel.perf_event_paranoid at most 1, or root). Writes flames_put.svg, flames_session_put.svg and
flames_batch_write.svg, and prints the shares. A frame's colour says whose code it is.

  flames.py --bin FOLDER [--out FOLDER] [--seconds N]
"""

import argparse
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from xml.sax import saxutils

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/server_bench"))
sys.dont_write_bytecode = True

import servers  # noqa: E402

# The call, records in it, and calls in flight.
CALLS = {"put": (1, 8), "session_put": (64, 4), "batch_write": (100, 8)}
TITLES = {"put": "Put, 8 in flight", "session_put": "a Session's messages of 64 puts, 4 in flight",
          "batch_write": "BatchWrite of 100, 8 in flight"}
KEYS = 1_000_000
SAMPLES_A_SECOND = 1_999
STACK_BYTES = 16_384
WIDTH, MARGIN, ROW = 1_200, 10, 16
LETTER = 6.2  # of the font, in pixels
LEAST_WIDTH = 0.4
LEGEND_STEP = 150
OURS, GRPC, PROTOBUF, KERNEL, LIBC = "LodgeKV", "gRPC", "protobuf", "kernel", "libc, allocator"
COLOURS = {OURS: "#e0703a", GRPC: "#6fa8dc", PROTOBUF: "#8fbf6f", KERNEL: "#b9b9b9",
           LIBC: "#e3cd6b"}


def owner(symbol, library):
    """Whose code a frame is; templates of gRPC's and protobuf's headers lie in the program."""
    if "kernel" in library or library.endswith(".ko") or symbol.endswith("_[k]"):
        return KERNEL
    if "protobuf" in library or re.match(r"(google::protobuf|lodgekv::v1|void google::)", symbol):
        return PROTOBUF
    if re.search(r"lib(grpc|gpr|absl|address_sorting|upb|cares|re2)", library):
        return GRPC
    if "lodgekvd" in library:
        return GRPC if re.match(r"(\w+ )?grpc(::|_)", symbol) else OURS
    return LIBC


def stacks_of(text):
    """Counter of stacks, tuples of (name, owner) from the thread inwards, of perf script's text."""
    stacks = collections.Counter()
    for sample in re.split(r"\n\s*\n", text):
        lines = [line for line in sample.split("\n") if line.strip()]
        if len(lines) < 2:
            continue
        frames = []
        for line in lines[1:]:
            found = re.match(r"\s*[0-9a-f]+ (.*) \((.*)\)$", line)
            if found:
                symbol, library = found.groups()
                whose = owner(symbol, library)
                if symbol != "[unknown]":
                    frames.append((symbol, whose))
                elif frames[-1:] != [(unknown := f"[{pathlib.Path(library).name}]", whose)]:
                    frames.append((unknown, whose))  # once for neighbours without names
        stacks[((lines[0].strip(), LIBC), *reversed(frames))] += 1
    return stacks


def shares(stacks):
    """{owner: share of the samples whose innermost frame is its}"""
    own = collections.Counter()
    for stack, count in stacks.items():
        own[stack[-1][1]] += count
    total = sum(own.values())
    return {whose: own[whose] / total for whose in COLOURS}


class Drawing:
    def __init__(self, stacks):
        self.stacks = stacks
        self.total = sum(stacks.values())
        self.depth = max(map(len, stacks))
        self.parts = []

    def draw(self, title):
        height = (self.depth + 4) * ROW + 2 * MARGIN
        self.children(list(self.stacks.items()), 0, MARGIN, height - MARGIN - ROW)
        head = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
                f'viewBox="0 0 {WIDTH} {height}" font-family="monospace" font-size="10">',
                f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
                f'<text x="{MARGIN}" y="20" font-size="13">{saxutils.escape(title)}: '
                f'{self.total:,} samples</text>', *self.legend()]
        return "\n".join([*head, *self.parts, "</svg>", ""])

    def legend(self):
        x = MARGIN
        for whose, share in shares(self.stacks).items():
            yield f'<rect x="{x}" y="30" width="12" height="12" fill="{COLOURS[whose]}"/>'
            yield f'<text x="{x + 16}" y="40">{whose} {share:.0%}</text>'
            x += LEGEND_STEP

    def children(self, stacks, depth, x, y):
        """Stacks that share their outer frames: a box for each next one, the widest first."""
        by_frame = collections.defaultdict(list)
        for stack, count in stacks:
            if len(stack) > depth:
                by_frame[stack[depth]].append((stack, count))
        boxes = sorted(by_frame.items(), key=lambda box: (-sum(n for _, n in box[1]), box[0]))
        for frame, inner in boxes:
            count = sum(n for _, n in inner)
            width = count / self.total * (WIDTH - 2 * MARGIN)
            if width < LEAST_WIDTH:
                break
            self.box(frame, count, x, y, width)
            self.children(inner, depth + 1, x, y - ROW)
            x += width

    def box(self, frame, count, x, y, width):
        name, whose = frame
        name = re.sub(r"\(.*", "", name) if len(name) > 120 else name
        title = saxutils.escape(f"{name}: {count / self.total:.1%}")
        letters = int((width - 4) / LETTER)
        label = saxutils.escape(name if len(name) <= letters else name[:letters - 1] + "…"
                                ) if letters >= 3 else ""
        self.parts.append(
            f'<g><title>{title}</title><rect x="{x:.1f}" y="{y}" '
            f'width="{max(width - 0.3, 0.3):.1f}" height="{ROW - 1}" fill="{COLOURS[whose]}"/>'
            + (f'<text x="{x + 2:.1f}" y="{y + 11}">{label}</text>' if label else "") + "</g>")


def call_cost(options, server, call, seconds, *words):
    batch, in_flight = CALLS[call]
    return [str(word) for word in (
        options.bin / "call_cost", "--server", server.address, "--server-pid", server.process.pid,
        "--call", call, "--batch", batch, "--in-flight", in_flight, "--keys", KEYS, "--seconds",
        seconds, *words)]


def run(*words):
    outcome = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                             check=False, errors="replace")
    if outcome.returncode != 0:
        raise servers.ServerError(f"{words[0]}: {outcome.stderr.strip()[-500:]}")
    return outcome.stdout


def sample(options, server, call, folder):
    data = folder / "perf.data"
    run("perf", "record", "-q", "-F", SAMPLES_A_SECOND, "--call-graph", f"dwarf,{STACK_BYTES}",
        "-o", data, "-p", server.process.pid, "--",
        *call_cost(options, server, call, options.seconds, "--filled"))
    text = run("perf", "script", "-i", data, "-F", "comm,ip,sym,dso", "--no-inline")
    data.unlink()
    return stacks_of(text)


def draw_all(options, folder):
    server = servers.Lodgekvd(folder / "server", options.bin, options.engine, "1GiB")
    server.environment["PMEM_IS_PMEM_FORCE"] = "1"
    with server:
        run(*call_cost(options, server, "put", 0.1))  # fills it
        print("| | " + " | ".join(COLOURS) + " |\n|---" + "|---" * len(COLOURS) + "|")
        for call in CALLS:
            stacks = sample(options, server, call, folder)
            if not stacks:
                raise servers.ServerError(f"perf saw nothing of {call}")
            drawing = Drawing(stacks).draw(f"{TITLES[call]}, {options.engine}")
            (options.out / f"flames_{call}.svg").write_text(drawing)
            cells = " | ".join(f"{share:.0%}" for share in shares(stacks).values())
            print(f"| {TITLES[call]} | {cells} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/benchmarks")
    parser.add_argument("--engine", default="lodgetree")
    parser.add_argument("--seconds", type=float, default=3, help="of each call")
    options = parser.parse_args()
    options.bin = options.bin.resolve()
    if not shutil.which("perf"):
        sys.exit("flames: there is no perf (apt-get install linux-perf)")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="flames-", dir="/dev/shm"))
    try:
        draw_all(options, folder)
    except servers.ServerError as error:
        sys.exit(f"flames: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""bench.py --bin FOLDER: measures every figure of targets.json that the build has an engine for,
and writes target and measured value side by side, with pictures, into build/bench.
"""

import argparse
import json
import os
import pathlib
import sys
import time

sys.dont_write_bytecode = True

import figures
import runs

ROOT = pathlib.Path(__file__).resolve().parents[2]
FULL = (10_000_000, 4_000_000)  # keys, operations of a phase
QUICK = (300_000, 100_000)
HOW = """Medians of the rounds, the range of all of them in parentheses. Engines and
`absl::btree_map` work in one process, chunk by chunk in turn, on a memory file taken for persistent
memory, with real flushes and fences; `btree_map` is on the heap's pages unless huge ones are said,
engines on huge ones where the kernel has them."""


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--out", type=pathlib.Path, help="folder of the results [build/bench]")
    parser.add_argument("--quick", action="store_true", help="few keys: under 5 minutes")
    parser.add_argument("--keys", type=int, help="of the main run")
    parser.add_argument("--ops", type=int, help="of each phase")
    parser.add_argument("--rounds", type=int, default=4, help="a figure is the median of these")
    parser.add_argument("--write-docs", action="store_true",
                        help="results go to docs/benchmarks: for a quiet machine alone")
    arguments = parser.parse_args()
    keys, ops = QUICK if arguments.quick else FULL
    arguments.keys, arguments.ops = arguments.keys or keys, arguments.ops or ops
    if arguments.write_docs and arguments.quick:
        parser.error("--write-docs with --quick: what is published is measured at full size")
    if arguments.out is None:
        arguments.out = ROOT / ("docs/benchmarks" if arguments.write_docs else "build/bench")
    return arguments


def measure_all(arguments, engines):
    """Round by round, so that a busy minute touches one value of each figure. Rows, and what the
    first run said of its environment."""
    rows, printed, begin = [], "", time.monotonic()
    for turn in range(1, arguments.rounds + 1):
        for run in runs.runs_of(arguments.keys, arguments.ops):
            if turn > run.rounds:
                continue
            print(f"{time.monotonic() - begin:6.0f} s  round {turn} of {arguments.rounds}: "
                  f"{run.name}", file=sys.stderr)
            more, text = runs.measure(run, arguments.bin / "engine_bench", engines, turn)
            rows += more
            printed = printed or text
    return rows, printed[:printed.index("options:")]


def page(measured, names, environment, arguments, load, pictures):
    text = ["# Figures to reach, and what was measured", "", HOW, "",
            f"{arguments.keys:,} keys, {arguments.ops:,} operations of each phase, "
            f"{arguments.rounds} rounds; load before and after "
            f"{load[0]:.1f} and {load[1]:.1f}.", "", "```", environment.strip(), "```"]
    text += ["", *(f"![{name.removesuffix('.svg')}]({name})" for name in pictures)]
    return "\n".join(text) + "\n" + figures.table(measured, names) + "\n"


def main():
    arguments = parse()
    targets = figures.read_targets()
    built = runs.known_engines(arguments.bin / "engine_bench")
    engines = [engine for engine in targets["engines"] if engine in built]
    before = os.getloadavg()[0]
    rows, environment = measure_all(arguments, engines)
    load = (before, os.getloadavg()[0])
    measured = list(figures.figures_of(rows, targets, engines))
    arguments.out.mkdir(parents=True, exist_ok=True)
    pictures = []
    try:
        import drawing
        pictures = drawing.draw_all(rows, targets, engines, arguments.out)
    except ImportError:
        print("bench: nothing is drawn without matplotlib (Debian: python3-matplotlib)",
              file=sys.stderr)
    text = page(measured, targets["engines"], environment, arguments, load, pictures)
    (arguments.out / "README.md").write_text(text)
    if not arguments.write_docs:
        (arguments.out / "rows.json").write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    print(text)
    missed = sum(figure.verdict() == "missed" for figure in measured)
    print(f"{len(measured)} figures, {missed} missed; written to {arguments.out}", file=sys.stderr)
    return 1 if any(not figure.values for figure in measured) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as error:
        sys.exit(f"bench: {error}")

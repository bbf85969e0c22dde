"""Draws what first_lookups has measured: lookups served soon after a kill with the log full.

    first_lookups --pool FILE --keys 10000000 --logged 5000000 > rows.json
    bench/first_lookups/draw.py rows.json docs/benchmarks/first_lookups.svg

Needs matplotlib (scripts/install_packages --figures).
"""

import collections
import json
import statistics
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "lodgekv", "font.size": 9, "axes.spines.top": False,
                            "axes.spines.right": False})

from matplotlib import pyplot

COLORS = {"1": "#3274d9", "0": "#e0b400"}
NAMES = {"1": "leaves take the log at first touch", "0": "the log is replayed first"}
WINDOWS = ("1", "10", "100", "1000")


def medians(path):
    """Lookups by window, for each format, number of keys and value of the switch."""
    rows = collections.defaultdict(list)
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            rows[row["key_format"], row["keys"], row["lazy_replay"]].append(row["served"])
    return {key: [statistics.median(one[window] for one in served) for window in WINDOWS]
            for key, served in rows.items()}


def main():
    rows = medians(sys.argv[1])
    panels = sorted({key[:2] for key in rows}, reverse=True)
    figure, all_axes = pyplot.subplots(1, len(panels), figsize=(3.2 * len(panels), 3.2),
                                       sharey=True, squeeze=False)
    for axes, (key_format, keys) in zip(all_axes[0], panels):
        for i, value in enumerate(("1", "0")):
            places = [place + (i - 0.5) * 0.4 for place in range(len(WINDOWS))]
            axes.bar(places, rows[key_format, keys, value], 0.38, color=COLORS[value],
                     label=NAMES[value])
        axes.set_yscale("symlog")
        axes.set_xticks(range(len(WINDOWS)), WINDOWS)
        axes.set_xlabel("ms from the begin of the opening")
        axes.set_title(f"{key_format}, {keys:,} keys", fontsize=9)
    all_axes[0][0].set_ylabel("lookups served")
    all_axes[0][0].legend(frameon=False, fontsize=7)
    figure.tight_layout()
    figure.savefig(sys.argv[2], metadata={"Date": None})


if __name__ == "__main__":
    main()

"""Draws the figures as SVG, the same file for the same figures. Needs matplotlib."""

import statistics

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "lodgekv", "font.size": 9, "axes.spines.top": False,
                            "axes.spines.right": False})

from matplotlib import pyplot

import figures as fig

WORKLOADS = ("insert", "read", "read_absent", "read_chained", "update", "delete", "scan")
COLORS = ("#3274d9", "#e0b400", "#56a64b", "#e02f44", "#8f3bb8")


def median_of(rows, engine, **selector):
    values = fig.values_by_round(rows, selector, engine)
    return statistics.median(values.values()) if values else None


def bars(axes, labels, engines, names, value):
    """Beside each label a bar for each engine; returns the places of the bars."""
    width = 0.8 / len(engines)
    for e, engine in enumerate(engines):
        places = [i + (e - (len(engines) - 1) / 2) * width for i in range(len(labels))]
        heights = [value(engine, label) for label in labels]
        axes.bar(places, [height or 0 for height in heights], width * 0.92, label=names[engine],
                 color=COLORS[e % len(COLORS)])
        for place, height in zip(places, heights):
            if height is not None:
                axes.text(place, height, f"{height:.2f}", ha="center", va="bottom", fontsize=7)
    axes.set_xticks(range(len(labels)), [label.replace("_", " ") for label in labels])
    axes.legend(frameon=False)
    return width


def save(figure, path):
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def draw_times(rows, targets, engines, path):
    """Time of each workload as a share of btree_map's; a line across a bar is its target."""
    names = targets["engines"]
    figure, axes = pyplot.subplots(figsize=(9, 3.6))

    def value(engine, workload):
        return median_of(rows, engine, run="main", workload=workload, field="ratio_to_btree_map")
    width = bars(axes, WORKLOADS, engines, names, value)
    goals = {(engine, target["of"]["workload"]): fig.goal_of(target, "at_most", engine)
             for target in targets["rows"] for engine in engines
             if target["of"].get("field") == "ratio_to_btree_map" and "over" not in target}
    for e, engine in enumerate(engines):
        for i, workload in enumerate(WORKLOADS):
            goal = goals.get((engine, workload))
            if goal is not None:
                place = i + (e - (len(engines) - 1) / 2) * width
                axes.hlines(goal, place - width / 2, place + width / 2, color="black")
    axes.axhline(1, color="gray", linewidth=0.8, linestyle=":")
    axes.set_ylabel("time, of absl::btree_map's")
    save(figure, path)


def draw_groups(rows, targets, engines, path):
    """Time of an operation in a group, as a share of a lone one's."""
    kinds = {f"{workload} {size}{'a' if atomic else ''}": (workload, size, atomic)
             for workload in ("insert", "update", "read") for size in (16, 64)
             for atomic in (False, True) if workload == "insert" or not atomic}

    def value(engine, label):
        workload, size, atomic = kinds[label]
        return median_of(rows, engine, run="groups", workload=workload, group=size, atomic=atomic,
                         field="ratio_to_lone")
    figure, axes = pyplot.subplots(figsize=(9, 3.6))
    bars(axes, list(kinds), engines, targets["engines"], value)
    axes.axhline(1, color="gray", linewidth=0.8, linestyle=":")
    axes.set_ylabel("time in a group, of a lone one's")
    save(figure, path)


def draw_threads(rows, targets, engines, path):
    """Operations per second with two threads over those with one."""
    def value(engine, workload):
        return median_of(rows, engine, run="main", workload=workload, threads=2,
                         field="speedup_over_one_thread")
    figure, axes = pyplot.subplots(figsize=(9, 3.2))
    bars(axes, WORKLOADS, engines, targets["engines"], value)
    axes.axhline(1.8, color="black", linewidth=0.8)
    axes.set_ylabel("two threads, times one")
    save(figure, path)


def draw_all(rows, targets, engines, folder):
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for draw in (draw_times, draw_groups, draw_threads):
        path = folder / (draw.__name__.removeprefix("draw_") + ".svg")
        draw(rows, targets, engines, path)
        drawn.append(path.name)
    return drawn

"""Targets beside what was measured: rows of targets.json, values of rows of engine_bench."""

import dataclasses
import json
import pathlib
import statistics

TARGETS = pathlib.Path(__file__).resolve().parent / "targets.json"
DEFAULTS = {"key_format": "fixed64", "threads": 1, "distribution": "uniform", "group": 1,
            "atomic": False, "options": ""}
MOST_DIGITS = 4  # added
# What a row of engine_bench leaves out.
UNSAID = {"distribution": "uniform", "group": 1, "atomic": False, "options": ""}


@dataclasses.dataclass(frozen=True)
class Figure:
    engine: str
    text: str
    values: tuple  # one for each round
    least: float | None = None
    most: float | None = None

    @property
    def median(self):
        return statistics.median(self.values)

    def goal(self):
        if self.most is not None:
            return f"at most {digits(self.most)}"
        return f"at least {digits(self.least)}" if self.least is not None else "-"

    def verdict(self):
        if self.most is None and self.least is None:
            return ""
        met = self.median <= self.most if self.most is not None else self.median >= self.least
        return "met" if met else "missed"

    def measured(self):
        text = self.telling_digits()
        low, high = digits(min(self.values)), digits(max(self.values))
        return text if low == high else f"{text} ({low} to {high})"

    def telling_digits(self):
        """Of the median; more than usual where it would look like the goal that it misses."""
        goal = self.most if self.most is not None else self.least
        more = 0
        while (self.verdict() == "missed" and more < MOST_DIGITS
               and digits(self.median, more) == digits(goal, more)):
            more += 1
        return digits(self.median, more)


def digits(value, more=0):
    if value >= 1e6:
        return f"{value / 1e6:.{1 + more}f} million"
    if value >= 100:
        return f"{value:,.{more}f}"
    return f"{value:.{2 + more}f}"


def read_targets(path=TARGETS):
    return json.loads(path.read_text())


def field_of(row, name):
    for part in name.split("."):
        if not isinstance(row, dict) or part not in row:
            return None
        row = row[part]
    return row


def matches(row, selector, engine):
    said = {**UNSAID, **row, "options": row.get("engine_options", "")}
    wanted = {**DEFAULTS, "engine": engine, **selector}
    if wanted["engine"].startswith("btree_map"):
        wanted["options"] = ""
    names = ("run", "engine", "workload", *DEFAULTS, *(["key_shape"] if "key_shape" in selector
                                                      else []))
    return all(said.get(name) == wanted[name] for name in names)


def value_of(row, selector):
    """A field, or a weighted sum of some over a weighted sum of others; None: it has none."""
    if "field" in selector:
        return field_of(row, selector["field"])
    sums = []
    for weights in (selector["sum"], selector["per"]):
        parts = [(field_of(row, name), weight) for name, weight in weights.items()]
        if any(value is None for value, _ in parts):
            return None
        sums.append(sum(value * weight for value, weight in parts))
    return sums[0] / sums[1] if sums[1] else None


def values_by_round(rows, selector, engine):
    found = {row["round"]: value_of(row, selector) for row in rows
             if matches(row, selector, engine)}
    return {turn: value for turn, value in found.items() if value is not None}


def values_of(rows, target, engine):
    values = values_by_round(rows, target["of"], engine)
    if "over" not in target:
        return tuple(values[turn] for turn in sorted(values))
    others = values_by_round(rows, target["over"], engine)
    return tuple(values[turn] / others[turn] for turn in sorted(values) if others.get(turn))


def goal_of(target, kind, engine):
    goal = target.get(kind)
    return goal.get(engine) if isinstance(goal, dict) else goal


def concerns(target, engine):
    goals = [target[kind] for kind in ("at_most", "at_least") if kind in target]
    return not goals or not isinstance(goals[0], dict) or engine in goals[0]


def figures_of(rows, targets, engines):
    """Of the engines that were measured, in the order of the targets; a figure without a value was
    to be measured and was not."""
    for engine in targets["engines"]:
        if engine not in engines:
            continue
        for target in targets["rows"]:
            if concerns(target, engine):
                yield Figure(engine, target["figure"], values_of(rows, target, engine),
                             goal_of(target, "at_least", engine),
                             goal_of(target, "at_most", engine))


def table(figures, names):
    lines = []
    for engine in dict.fromkeys(figure.engine for figure in figures):
        lines += ["", f"## {names[engine]}", "", "| figure | measured | to reach | |",
                  "|---|---|---|---|"]
        for figure in figures:
            if figure.engine != engine:
                continue
            if figure.values:
                cells = [figure.text, figure.measured(), figure.goal(), figure.verdict()]
            else:
                cells = [figure.text, "-", figure.goal(), "not measured"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)

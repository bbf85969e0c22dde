"""Medians, ranges and the tables that show them, in the form of docs/benchmarks.md."""

import dataclasses
import statistics


def digits(value):
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def spread(values, form=digits):
    """The median, and of several values the range of all."""
    text = form(statistics.median(values))
    if len(values) > 1:
        text += f" ({form(min(values))} to {form(max(values))})"
    return text


def milliseconds(microseconds):
    return digits(microseconds / 1000)


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


@dataclasses.dataclass
class Goal:
    """A goal. `values` are those of the rounds, their median counts; without any `why`
    says what kept it from being measured."""

    figure: str
    values: list
    least: float | None = None
    most: float | None = None
    unit: str = ""
    why: str = ""
    note: str = ""

    def wanted(self):
        if self.most is None:
            return f"at least {self.least:,g}{self.unit}"
        return f"at most {self.most:,g}{self.unit}"

    def verdict(self):
        if not self.values:
            return "not measured: " + self.why
        middle = statistics.median(self.values)
        met = middle >= self.least if self.most is None else middle <= self.most
        return "met" if met else "missed"

    def measured(self):
        if not self.values:
            return "-"
        return spread(self.values) + self.unit + (f"; {self.note}" if self.note else "")

    def row(self):
        return [self.figure, self.measured(), self.wanted(), self.verdict()]


def goals_table(goals):
    return table(["figure", "measured", "goal", ""], [goal.row() for goal in goals])

#!/usr/bin/env python3
"""Renders the chart into tests/deploy/golden; look at the difference before you commit it."""

import sys

import chart


def main():
    program = chart.tool("helm", install=True)
    for name, (release, arguments) in chart.CASES.items():
        outcome = chart.render(release, arguments, program=program)
        if outcome.returncode != 0:
            sys.exit(f"make_golden: {name}: {outcome.stderr}")
        (chart.GOLDEN / f"{name}.yaml").write_text(outcome.stdout)
    chart.SOURCES.write_text(chart.digest())


if __name__ == "__main__":
    main()

"""What deploy/ ships for monitoring, as the tests read it."""

import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]
RULES = ROOT / "deploy/prometheus/rules.yml"
RULES_TEST = ROOT / "deploy/prometheus/rules_test.yml"
GRAFANA = ROOT / "deploy/grafana"
OPERATIONS = ROOT / "docs/operations.md"
PICTURES = ROOT / "docs/dashboards"
METRICS_DOC = ROOT / "docs/metrics.md"

# A comparison with a number, which makes an alert of an expression.
COMPARISON = re.compile(r"\s(?:==|!=|>=|<=|>|<)\s(?!bool)-?[\d.]+(?:\s\*\s[\d.]+)*(?![\w.])")


def dashboards():
    """{file name: dashboard}"""
    return {path.name: json.loads(path.read_text()) for path in sorted(GRAFANA.glob("*.json"))}


def panels(dashboard):
    """All but the rows."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def concrete(expression, window):
    """The expression as Grafana sends it, all servers being chosen."""
    for name, value in {"$__rate_interval": window, "$__interval": window, "$__range": window,
                        "$job": ".+", "$instance": ".+"}.items():
        expression = expression.replace(name, value)
    if "$" in expression:
        raise ValueError(f"a variable that the dashboards do not have: {expression}")
    return expression


def without_comparison(expression):
    """What an alert looks at, whether it fires or not."""
    return COMPARISON.sub("", expression)


def alerts():
    """{name: the text of its rule}"""
    text = RULES.read_text()
    parts = re.split(r"^      - (?:alert|record): ", text, flags=re.M)[1:]
    names = re.findall(r"^      - (alert|record): (\S+)", text, flags=re.M)
    return {name: part for (kind, name), part in zip(names, parts) if kind == "alert"}


def headings(document):
    """The anchors of a document, as Git hosts make them of headings."""
    titles = re.findall(r"^#+ (.+)$", document.read_text(), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}

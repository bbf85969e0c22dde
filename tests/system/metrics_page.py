"""A daemon's page of metrics: fetched, and searched by name and labels."""

import re
import urllib.request

LINE = re.compile(r"([\w:]+)(?:\{(.*)\})? (\S+)")
# With a value that is still escaped.
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class NoSampleError(LookupError):
    pass


def fetch(address, seconds=10):
    """The text of the page."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=seconds) as answer:
        return answer.read().decode()


def read(address):
    return Page(fetch(address))


def sample(metric, /, **labels):
    """The name that a Page has for it, as Prometheus writes it, whatever the order of the labels:
    metric{a="1",b="2"}."""
    return _name(metric, ((label, _escape(str(value))) for label, value in labels.items()))


class Page(dict):
    """The value of each sample by its name."""

    def __init__(self, text):
        super().__init__(_read_line(line) for line in text.split("\n")
                         if line and not line.startswith("#"))

    def value(self, metric, /, **labels):
        return self[sample(metric, **labels)]

    def __missing__(self, name):
        metric = name.partition("{")[0]
        others = [other for other in self if other.partition("{")[0] == metric]
        raise NoSampleError(f"no {name}; there is {', '.join(others) or 'no other ' + metric}")


def _read_line(line):
    found = LINE.fullmatch(line)
    if not found:
        raise ValueError(f"no line of a page of metrics: {line}")
    metric, labels, value = found.groups()
    return _name(metric, LABEL.findall(labels or "")), float(value)


def _name(metric, labels):
    """Of labels with escaped values."""
    inside = ",".join(f'{label}="{value}"' for label, value in sorted(labels))
    return f"{metric}{{{inside}}}" if inside else metric


def _escape(value):
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

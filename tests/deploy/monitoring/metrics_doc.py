"""docs/metrics.md, made of what daemons with each engine show."""

import collections
import contextlib
import dataclasses
import pathlib
import re

import daemon
import stage

INTRODUCTION = """\
# Metrics

`lodgekvd` shows these at `http://METRICS_LISTEN/metrics`, without authentication and without TLS.
This page is made by `scripts/make_metrics_doc` from the answers of daemons with each engine, and a
test compares it with them. Dashboards are in `deploy/grafana/`, rules and alerts in
`deploy/prometheus/`; [operations.md](operations.md#alerts) tells what to do on each alert.

Counters end in `_total` and begin at 0 with each start. Before a pool is open only the server's
state, the calls, TLS and the process are shown. No label ever holds a key.

| label | values |
|---|---|
"""

LABELS = {
    "rpc": "the call: `Get`, `Put`, `Delete`, `Scan`, `BatchGet`, `BatchWrite`",
    "code": "gRPC's code: `OK`, `INVALID_ARGUMENT`, `RESOURCE_EXHAUSTED`, ...; `OK` and those that "
            "the alerts count from the start, the others from their first answer on",
    "engine": "as `lodgectl engines` lists them",
    "port": "`data`, `admin`, `health`",
    "reason": "as the meaning lists them",
    "state": "`recovering`, `serving`, `draining`",
    "limit": "the field that was reached: `max_inflight_operations`, `max_inflight_size`, "
             "`peer_share`, `connection_share`",
    "medium_class": "`pmem-adr`, `pmem-eadr`, `cxl`, `file`, `pmem-forced`, `volatile`, `none`",
    "durability": "`medium`, `process`, `none`",
    "key_format": "`bytes`, `fixed64`",
    "version": "of the daemon",
    "le": "upper bound of a histogram's bucket",
    "quantile": "of a summary",
}

# Title, what the names begin with, and what is to be known of all of them.
SECTIONS = (
    ("The server", ("state", "start_time_", "build_info", "log_"), ""),
    ("Calls", ("rpc_", "write_", "request_"), ""),
    ("Connections", ("connections", "accept_"), "Of the ports of gRPC."),
    ("The cost of writes on the medium", ("medium_info", "lines_", "fences_", "media_", "stored_"),
     "Counted where stores are made, flushed and fenced, for all that the engine does."),
    ("The pool", ("pool_",), "All 0 with an engine that takes no pool."),
    ("The journal of an ordinary file", ("journal_",),
     "Shown where the pool lies on an ordinary file and `durability` is `medium`. Those of the "
     "replay tell of the last start until the next."),
    ("Recovery", ("recovery_",), "They tell of the last start until the next."),
    ("TLS", ("tls_",), "Shown when the daemon serves with TLS; the client CA's with mutual TLS."),
    ("The engine", ("engine_",), "Shown by the engines in the last column."),
)
FOREIGN = (
    ("The process", "process_", "Under the names that other programs give them as well."),
)


@dataclasses.dataclass
class Family:
    name: str
    kind: str = ""
    labels: set = dataclasses.field(default_factory=set)
    # {help: engines that give it}
    helps: dict = dataclasses.field(default_factory=lambda: collections.defaultdict(list))

    @property
    def engines(self):
        return sorted({engine for engines in self.helps.values() for engine in engines})

    def meaning(self):
        if len(self.helps) == 1:
            return next(iter(self.helps))
        return "; ".join(f"{', '.join(engines)}: {text}" for text, engines in self.helps.items())

    def unit(self):
        for pattern, unit in ((r"timestamp_seconds$|start_time_seconds$", "Unix time, s"),
                              (r"seconds(_total)?$", "s"), (r"bytes(_total|_limit)?$", "bytes"),
                              (r"_256b_total$", "256 bytes"), (r"_latencies$", "us"),
                              (r"_info$", "always 1"),
                              (r"(state|_full|_clean|_failing)$", "0 or 1")):
            if re.search(pattern, self.name):
                return unit
        return "count"


def read(scrapes):
    """{name: Family} of {engine: scrape}."""
    families = {}
    for engine, text in scrapes.items():
        for word, name, rest in re.findall(r"^# (HELP|TYPE) (\S+) (.*)$", text, flags=re.M):
            family = families.setdefault(name, Family(name))
            if word == "TYPE":
                family.kind = rest
            elif engine not in family.helps[rest]:
                family.helps[rest].append(engine)
        for name, labels in re.findall(r"^(\w+)\{(.*)\} \S+$", text, flags=re.M):
            family = families.get(name) or families[re.sub("_(bucket|count|sum)$", "", name)]
            family.labels |= set(re.findall(r'(\w+)="', labels))
    return families


def table(families, *, engines=False):
    lines = ["| metric | type | unit | labels | meaning |" + (" engines |" if engines else ""),
             "|---|---|---|---|---|" + ("---|" if engines else "")]
    for family in families:
        labels = ", ".join(f"`{label}`" for label in sorted(family.labels)) or "-"
        line = (f"| `{family.name}` | {family.kind} | {family.unit()} | {labels} | "
                f"{family.meaning()} |")
        lines.append(line + (f" {', '.join(family.engines)} |" if engines else ""))
    return lines


def section(title, note, families, **options):
    return [f"\n## {title}\n", *([note, ""] if note else []), *table(families, **options)]


def render(scrapes):
    """The page. Fails by name where it does not know what to do with a metric or a label."""
    families = read(scrapes)
    unknown = {label for family in families.values() for label in family.labels} - set(LABELS)
    if unknown:
        raise ValueError(f"labels {sorted(unknown)}: say in metrics_doc.py what values they have")
    lines = [f"| `{label}` | {values} |" for label, values in LABELS.items()]
    shown = set()
    chapters = [(title, tuple(f"lodgekv_{prefix}" for prefix in prefixes), note)
                for title, prefixes, note in SECTIONS]
    for title, prefixes, note in [*chapters, *FOREIGN]:
        chosen = [family for name, family in families.items() if name.startswith(prefixes)]
        chosen.sort(key=lambda family: (-len(family.engines), family.engines))
        shown |= {family.name for family in chosen}
        lines += section(title, note, chosen, engines=title == "The engine")
    if families.keys() - shown:
        raise ValueError(f"{sorted(families.keys() - shown)}: name a section of metrics_doc.py")
    return INTRODUCTION + "\n".join(lines) + "\n"


def scrape_all(workdir):
    """{engine: scrape} of each engine of this build; one of them with TLS, one on a file."""
    scrapes = {}
    with contextlib.ExitStack() as stack:
        for engine in daemon.engines():
            name = engine["name"]
            server = stage.with_pool(workdir, name) if engine["persistent"] else (
                stage.Server(workdir, name, engine=name))
            stack.enter_context(server)
            server.ask("put", "key", "value")
            scrapes[name] = server.scrape()
        disk = stack.enter_context(daemon.folder(daemon.disk_folder()))
        for special in (stage.with_tls(pathlib.Path(workdir)), stage.on_file(disk)):
            server = stack.enter_context(special)
            if special.name == "file" and "lodgekv_journal_" not in server.scrape():
                raise ValueError(f"{disk} is not on a disk: a pool there has no journal; name a "
                                 "folder on one (TMPDIR)")
            scrapes[server.flags["engine"]] += server.scrape()
    return scrapes

"""A real Prometheus on a free port of 127.0.0.1, and questions to it."""

import contextlib
import json
import math
import pathlib
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import daemon

START_SECONDS = 30
JOB = "lodgekv"

CONFIG = """\
global:
  scrape_interval: {interval}
  evaluation_interval: {interval}
rule_files: [{rules}]
scrape_configs:
  - job_name: {job}
    static_configs:
      - targets: [{targets}]
"""


def is_installed():
    """Debian's package has both."""
    return bool(shutil.which("prometheus") and shutil.which("promtool"))


class QueryError(Exception):
    pass


class Prometheus:
    """Scrapes the targets every second and evaluates the rules as often."""

    def __init__(self, workdir, rules, targets):
        self.workdir = pathlib.Path(workdir)
        self.address = f"127.0.0.1:{daemon.free_port()}"
        self.log = self.workdir / "prometheus.log"
        self.process = None
        self.config = self.workdir / "prometheus.yml"
        self.config.write_text(CONFIG.format(interval="1s", rules=rules, job=JOB,
                                             targets=", ".join(f"'{each}'" for each in targets)))

    def __enter__(self):
        # It must not outlive a killed test.
        command = ["setpriv", "--pdeathsig", "KILL", "prometheus", f"--config.file={self.config}",
                   f"--storage.tsdb.path={self.workdir / 'tsdb'}", "--log.level=warn",
                   f"--web.listen-address={self.address}"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.end()
                raise QueryError(f"prometheus does not serve:\n{self.log.read_text()}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        self.process.kill()
        self.process.wait()

    def is_ready(self):
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=2) as answer:
                return answer.status == 200
        return False

    def ask(self, path, **parameters):
        """The data of an answer of the API."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            raise QueryError(f"{parameters}: {text}") from error

    def values(self, expression):
        """[(labels, value)] now, without values that are no numbers."""
        result = self.ask("query", query=expression)["result"]
        pairs = [(series["metric"], float(series["value"][1])) for series in result]
        return [(labels, value) for labels, value in pairs if not math.isnan(value)]

    def ranges(self, expression, start, end, step):
        """[(labels, [(time, value)])] over a time."""
        data = self.ask("query_range", query=expression, start=start, end=end, step=step)
        return [(series["metric"], [(time, float(value)) for time, value in series["values"]])
                for series in data["result"]]

    def firing(self):
        """{(alert, instance)} of those that fire."""
        return {(alert["labels"]["alertname"], alert["labels"]["instance"])
                for alert in self.ask("alerts")["alerts"] if alert["state"] == "firing"}

    def rules(self):
        """Every rule as Prometheus has read it."""
        return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]

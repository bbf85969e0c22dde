"""The dashboards and rules before a real Prometheus that scrapes real daemons under load."""

import math
import re
import subprocess
import time
import unittest

import artefacts
import certificates
import prometheus
import stage

import system_test

# Grafana's $__rate_interval.
WINDOW = "10s"
# What must be visible before the queries begin, and how long that may take.
READY_SECONDS = 60
# The load rotates: a panel that is empty now may show something later on a slow machine.
PATIENCE_SECONDS = 30
FULL = ("LodgeKVPoolFull", "LodgeKVPoolSpaceLow")

# Panels that show only zeros here, and why that is right.
ZEROS = {
    "Failing calls": "no call fails by the server's fault",
    "Free in a day": "at this rate every pool is full by then",
    "Rotations": "no file is rotated",
    "Log reclaims and merged leaves": "a few seconds of load do neither",
    "Repairs": "the crash need not have cut anything short",
    "Bytes in flight": "the requests are small and may be answered between two scrapes",
    "Operations in flight": "likewise",
    "Superseded pairs": "pairs may reach their leaves before they are overwritten",
    "Second commits": "t_split makes them rare",
    "Node splits": "the tree may be small for them by the time of the question",
    "Lag of the checkpoint": "the segments of the small journal are free again at once",
    "Writers waiting": "on a fast disk nobody need wait",
    "Syncs of the pool": "no fence has so many lines",
    "Files": "no pool is gone",
    "Connections turned away": "none is",
    "Connections ended": "nobody gives cause",
    "Log lines dropped": "the log is read",
    "Leaves unlinked": "the leaves that empty may do so between two questions",
    "Tasks in the background": "they are short: none need wait at a scrape",
}


def impatient(text):
    """The rules with one second where they wait for longer."""
    return re.sub(r"^( +for: ).+$", r"\g<1>1s", text, flags=re.M)


class PrometheusTest(system_test.SystemTest):
    """One stage and one Prometheus for all tests."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.workdir = cls.enterClassContext(stage.daemon.folder())
        rules = cls.workdir / "rules.yml"
        rules.write_text(impatient(artefacts.RULES.read_text()))
        disk = cls.enterClassContext(stage.daemon.folder(stage.daemon.disk_folder()))
        cls.stage = cls.enterClassContext(stage.Stage(cls.workdir, disk))
        if cls.stage.file.ask_json("status")["medium_class"] != "file":
            raise unittest.SkipTest(f"{disk} is not on a disk: a pool there has no journal")
        cls.server = cls.enterClassContext(
            prometheus.Prometheus(cls.workdir, rules, cls.stage.targets))
        cls.await_that(lambda: len(cls.server.values("lodgekv_build_info")) == len(
            cls.stage.targets), "every daemon is scraped")
        cls.stage.play()
        full = {(alert, cls.stage.filling.target) for alert in FULL}
        cls.await_that(lambda: full <= cls.server.firing(), f"{FULL} fire for the full pool")
        cls.await_that(lambda: cls.server.values(
            "count_over_time(lodgekv_recovery_keys[5s]) >= 5 and lodgekv_recovery_keys > 0"),
            "a recovered server is scraped for five seconds")
        down = ("LodgeKVDown", cls.stage.ended.target)
        cls.await_that(lambda: down in cls.server.firing(), f"{down} fires")

    @classmethod
    def await_that(cls, condition, what):
        deadline = time.monotonic() + READY_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {READY_SECONDS} s: {what}; firing: "
                                     f"{sorted(cls.server.firing())}; {cls.stage.failures}")
            time.sleep(0.2)

    def setUp(self):
        self.deadline = time.monotonic() + PATIENCE_SECONDS

    def tearDown(self):
        self.assertEqual(self.stage.failures, [])

    def assert_data(self, what, expression, *, zeros_allowed=False):
        values = self.look(expression)
        while not (values if zeros_allowed else any(values)) and time.monotonic() < self.deadline:
            time.sleep(1)
            values = self.look(expression)
        self.assertTrue(values, f"{what} shows nothing: {expression}")
        self.assertTrue(zeros_allowed or any(values), f"{what} shows only zeros: {expression}")
        # Infinity means a quotient without its guard.
        self.assertFalse(any(map(math.isinf, values)), f"{what}: {values}")

    def look(self, expression):
        return [value for _, value in self.server.values(expression)]

    def test_every_panel_shows_data(self):
        seen = 0
        for file, dashboard in artefacts.dashboards().items():
            for panel in artefacts.panels(dashboard):
                title = panel["title"]
                for target in panel["targets"]:
                    seen += 1
                    expression = artefacts.concrete(target["expr"], WINDOW)
                    with self.subTest(dashboard=file, panel=title, query=target["refId"]):
                        # Only the panel's first query may be zero.
                        zeros = title in ZEROS or target["refId"] != "A"
                        self.assert_data(title, expression, zeros_allowed=zeros)
        print(f"{seen} queries of panels", flush=True)
        self.assertGreater(seen, 50)

    def test_promtool_finds_the_metrics_in_order(self):
        for server in (*self.stage.loaded, self.stage.tls):
            outcome = subprocess.run(["promtool", "check", "metrics"], capture_output=True,
                                     input=server.scrape().encode(), check=False, timeout=60)
            self.assertEqual((outcome.returncode, outcome.stdout + outcome.stderr), (0, b""))

    def test_the_choices_of_the_dashboards_are_there(self):
        for name in ("job", "instance"):
            values = self.server.ask(f"label/{name}/values", **{"match[]": "lodgekv_build_info"})
            expected = [prometheus.JOB] if name == "job" else sorted(self.stage.targets)
            self.assertEqual(sorted(values), expected)

    def test_every_rule_is_evaluated_and_looks_at_data(self):
        rules = self.server.rules()
        self.assertEqual({rule["name"] for rule in rules if rule["type"] == "alerting"},
                         set(artefacts.alerts()))
        for rule in rules:
            with self.subTest(rule=rule["name"]):
                self.assertEqual(rule["health"], "ok", rule.get("lastError"))
                expression = rule["query"]
                if rule["type"] == "recording":
                    self.assert_data(rule["name"], rule["name"], zeros_allowed=True)
                else:
                    expression = artefacts.without_comparison(expression)
                self.assert_data(rule["name"], expression, zeros_allowed=True)
        print(f"{len(rules)} rules", flush=True)

    def test_a_pool_that_fills_is_told_and_no_other(self):
        firing = self.server.firing()
        for alert in FULL:
            servers = {instance for name, instance in firing if name == alert}
            self.assertEqual(servers, {self.stage.filling.target}, alert)

    def test_what_is_wrong_with_the_others_is_told(self):
        firing = self.server.firing()
        crashed = {server.target for server in self.stage.loaded}
        alive = set(self.stage.targets) - {self.stage.ended.target}
        for alert, servers in (("LodgeKVRestartedUnclean", crashed),
                               ("LodgeKVDown", {self.stage.ended.target}),
                               ("LodgeKVMediumNotPersistent", alive - {self.stage.file.target}),
                               ("LodgeKVDurabilityReduced", {self.stage.tls.target})):
            self.assertEqual({instance for name, instance in firing if name == alert}, servers,
                             alert)
        for alert in ("LodgeKVDataLoss", "LodgeKVErrors", "LodgeKVOverloaded",
                      "LodgeKVRestartsOften", "LodgeKVFileDescriptorsLow", "LodgeKVRecoveryFailed",
                      "LodgeKVRecoveryUnfinished", "LodgeKVBackgroundFailures"):
            self.assertFalse([each for each in firing if each[0] == alert], alert)


if __name__ == "__main__":
    if prometheus.is_installed() and certificates.have_openssl():
        system_test.main()
    else:
        print("SKIPPED: it needs prometheus, promtool and openssl, which Debian's packages "
              "prometheus and openssl have")

"""Dashboards and alerts as they stand in deploy/: their form, and what is told of them."""

import copy
import re
import subprocess
import unittest

import artefacts
import dashboard_rules

METRIC = re.compile(r"\b(?:lodgekv|process)_[a-z0-9_]+\b(?!:)")


def change(path, value):
    """A function that puts the value there in a dashboard; path: keys, the last one is set."""
    def apply(dashboard):
        place = dashboard
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
    return apply


# For each rule what breaks it. Panel 0 is a row, panel 1 stands in it.
BREAKS = {
    "has_its_variables": change(("templating", "list", 0, "type"), "query"),
    "asks_the_chosen_data_source": change(("panels", 1, "targets", 0, "datasource"),
                                          {"type": "prometheus", "uid": "mine"}),
    "chooses_servers": change(("panels", 1, "targets", 0, "expr"), "lodgekv_pool_full"),
    "stands_in_rows": change(("panels", 0, "type"), "text"),
    "says_what_is_seen": change(("panels", 1, "description"), ""),
    "lays_panels_side_by_side": change(("panels", 1, "gridPos", "y"), 0),
    "counters_stand_under_a_rate": change(("panels", 1, "targets", 0, "expr"),
                                          "lodgekv_fences_total"),
}


class DashboardsTest(unittest.TestCase):
    def test_they_are_what_their_source_says(self):
        outcome = subprocess.run([artefacts.ROOT / "scripts/make_dashboards", "--check"],
                                 capture_output=True, check=False, timeout=60)
        self.assertEqual((outcome.returncode, outcome.stderr), (0, b""))

    def test_they_keep_to_the_rules(self):
        dashboards = artefacts.dashboards()
        self.assertEqual(len(dashboards), 4)
        for file, dashboard in dashboards.items():
            self.assertEqual(f"{dashboard['uid']}.json", file)
            for rule in dashboard_rules.RULES:
                with self.subTest(dashboard=file, rule=rule.__name__):
                    self.assertEqual(list(rule(dashboard)), [])

    def test_each_rule_can_fail(self):
        sample = artefacts.dashboards()["lodgekv-medium.json"]
        self.assertEqual(set(BREAKS), {rule.__name__ for rule in dashboard_rules.RULES})
        for rule in dashboard_rules.RULES:
            with self.subTest(rule=rule.__name__):
                broken = copy.deepcopy(sample)
                BREAKS[rule.__name__](broken)
                self.assertNotEqual(list(rule(broken)), [])

    def test_each_has_a_picture(self):
        pictures = {path.stem: path for path in artefacts.PICTURES.glob("*.png")}
        named = artefacts.OPERATIONS.read_text()
        self.assertEqual({f"{name}.json" for name in pictures}, set(artefacts.dashboards()))
        for path in pictures.values():
            self.assertEqual(path.read_bytes()[:8], b"\x89PNG\r\n\x1a\n", path)
            self.assertLess(path.stat().st_size, 300 << 10, path)
            self.assertIn(f"dashboards/{path.name}", named)

    def test_their_metrics_are_documented(self):
        known = set(METRIC.findall(artefacts.METRICS_DOC.read_text()))
        for file, dashboard in artefacts.dashboards().items():
            for title, expression in dashboard_rules.expressions(dashboard):
                unknown = {plain(name) for name in METRIC.findall(expression)} - known
                self.assertEqual(unknown, set(), f"{file}: {title}")


def plain(name):
    """A histogram's name without what its series append."""
    return re.sub(r"^(\w+_seconds)_(?:bucket|count|sum)$", r"\1", name)


class AlertsTest(unittest.TestCase):
    def test_each_is_labelled_and_told(self):
        alerts = artefacts.alerts()
        self.assertGreater(len(alerts), 15)
        for name, text in alerts.items():
            with self.subTest(alert=name):
                self.assertRegex(text, r"severity: (critical|warning|info)\n")
                self.assertRegex(text, r'summary: ".+"\n')
                self.assertRegex(text, r'description: ".+"\n')
                self.assertIn(f"runbook: docs/operations.md#{name.lower()}\n", text)

    def test_each_has_a_runbook_and_each_runbook_an_alert(self):
        anchors = {anchor for anchor in artefacts.headings(artefacts.OPERATIONS)
                   if anchor.startswith("lodgekv") and anchor != "lodgekv"}
        self.assertEqual(anchors, {name.lower() for name in artefacts.alerts()})

    def test_each_is_seen_firing_by_promtool(self):
        fired = set(re.findall(r"alertname: (\S+)\n +exp_alerts:\n +- exp_labels",
                               artefacts.RULES_TEST.read_text()))
        self.assertEqual(fired, set(artefacts.alerts()))

    def test_their_metrics_are_documented(self):
        known = set(METRIC.findall(artefacts.METRICS_DOC.read_text()))
        used = {plain(name) for name in METRIC.findall(artefacts.RULES.read_text())}
        self.assertEqual(used - known, set())


if __name__ == "__main__":
    unittest.main(verbosity=2)

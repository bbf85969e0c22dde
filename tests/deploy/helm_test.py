"""The chart through helm: golden files, packaging, and what it refuses.

Where there is no helm it is skipped; LODGEKV_INSTALL_HELM=yes compiles one (scripts/check --torture
sets it).
"""

import json
import os
import pathlib
import re
import shutil
import tarfile
import unittest

import yaml

import chart
import daemon
import system_test

PLAIN = ["--set", "allowPlaintext=true"]
EVERYTHING = PLAIN + ["--set", "prometheusRule.enabled=true,dashboards.enabled=true"]


class HelmTest(system_test.SystemTest):
    @classmethod
    def setUpClass(cls):
        try:
            install = os.environ.get("LODGEKV_INSTALL_HELM") == "yes"
            cls.program = chart.tool("helm", install=install)
        except chart.NoTool as reason:
            raise unittest.SkipTest(str(reason)) from reason

    def render(self, *arguments, release="kv", path=chart.CHART):
        return chart.render(release, arguments, program=self.program, chart=path)

    def manifests(self, *arguments, **options):
        outcome = self.render(*arguments, **options)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return chart.documents(outcome.stdout)

    def test_golden_files(self):
        for name, (release, arguments) in chart.CASES.items():
            with self.subTest(name):
                outcome = self.render(*arguments, release=release)
                self.assertEqual(outcome.returncode, 0, outcome.stderr)
                self.assert_same_lines(outcome.stdout.splitlines(),
                                       (chart.GOLDEN / f"{name}.yaml").read_text().splitlines(),
                                       "run tests/deploy/make_golden.py and look at the difference")

    def test_lint(self):
        for name in chart.MEDIA:
            outcome = chart.helm("lint", "--strict", chart.CHART, "-f",
                                 chart.CHART / f"values-{name}.yaml", "--kube-version",
                                 chart.KUBERNETES[0], program=self.program)
            self.assertEqual(outcome.returncode, 0, outcome.stdout)

    def test_an_older_kubernetes_is_refused(self):
        outcome = chart.helm("template", "kv", chart.CHART, *PLAIN, "--kube-version", "1.26.0",
                             program=self.program)
        self.assertIn("requires kubeVersion: >=1.27.0", outcome.stderr)

    def test_a_package_has_everything(self):
        folder = pathlib.Path(self.folder())
        outcome = chart.helm("package", chart.CHART, "--destination", folder, program=self.program)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        (package,) = folder.glob("lodgekv-*.tgz")
        self.assertEqual(self.manifests(*EVERYTHING, path=package), self.manifests(*EVERYTHING))
        with tarfile.open(package) as files:
            strange = [name for name in files.getnames() if not name.endswith(
                (".yaml", ".yml", ".json", ".tpl", ".txt", ".md", ".helmignore"))]
        self.assertEqual(strange, [])

    # --- dashboards and rules ---

    def test_dashboards_are_those_of_deploy(self):
        folder = chart.ROOT / "deploy/grafana"
        config_map = chart.the(self.manifests(*EVERYTHING), "ConfigMap", "-dashboards")
        self.assertEqual(config_map["metadata"]["labels"]["grafana_dashboard"], "1")
        expected = {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}
        self.assertTrue(expected, f"no dashboard in {folder}")
        self.assertEqual({name: json.loads(text) for name, text in config_map["data"].items()},
                         expected)
        self.assertLess(sum(map(len, config_map["data"].values())), 1 << 20, "too much for one")

    def test_rules_are_those_of_deploy(self):
        rule = chart.the(self.manifests(*EVERYTHING), "PrometheusRule")
        path = chart.ROOT / "deploy/prometheus/rules.yml"
        self.assertEqual(rule["spec"], yaml.safe_load(path.read_text()))
        self.assertIn("$labels", json.dumps(rule["spec"]), "templates of alerts came through")

    def test_neither_unless_asked_for(self):
        kinds = [manifest["kind"] for manifest in self.manifests(*PLAIN)]
        self.assertNotIn("PrometheusRule", kinds)
        self.assertNotIn("ServiceMonitor", kinds)
        self.assertEqual(kinds.count("ConfigMap"), 1)

    # --- notes ---

    def notes(self, *settings):
        """What an installation says at its end."""
        # helm shows notes at a cluster only, so here they become a manifest.
        copy = self.folder() / "lodgekv"
        shutil.copytree(chart.CHART, copy)
        text = (copy / "templates/NOTES.txt").read_text()
        (copy / "templates/_notes.tpl").write_text(f'{{{{ define "notes" }}}}{text}{{{{ end }}}}')
        (copy / "templates/notes.yaml").write_text(
            'kind: Notes\nmetadata: {name: notes}\ntext: {{ include "notes" . | toJson }}\n')
        manifests = self.manifests(*(word for setting in settings for word in ("--set", setting)),
                                   path=copy)
        return chart.the(manifests, "Notes")["text"]

    def test_how_to_ask_the_pod(self):
        """Flags that lodgectl has, with the files that are mounted."""
        tls = ("tls.enabled=true", "tls.existingSecret=s")
        authority = [("--tls-ca", "/etc/lodgekv/tls/ca.crt"), ("--tls-server-name", "NAME")]
        pair = [("--tls-cert", "/etc/lodgekv/tls/tls.crt"),
                ("--tls-key", "/etc/lodgekv/tls/tls.key")]
        known = daemon.run(daemon.LODGECTL, "--help").stdout.decode()
        for settings, expected in ((PLAIN[1:], []), (tls, authority),
                                   ((*tls, "tls.mutual=true"), authority + pair)):
            told = re.findall(r"(--tls-[a-z-]+) (\S+)", self.notes(*settings))
            self.assertEqual(told, expected)
            for flag, _ in told:
                self.assertIn(f" {flag} ", known)

    def test_a_monitor_that_the_policy_keeps_out(self):
        monitored = (PLAIN[1], "serviceMonitor.enabled=true")
        warning = "WARNING: networkPolicy.metricsFrom is empty"
        self.assertIn(warning, self.notes(*monitored))
        self.assertNotIn(warning, self.notes(PLAIN[1]))
        self.assertNotIn(warning, self.notes(*monitored, "networkPolicy.enabled=false"))
        self.assertNotIn(warning, self.notes(
            *monitored, "networkPolicy.metricsFrom[0].ipBlock.cidr=10.0.0.0/8"))

    # --- refusals ---

    def refuse(self, expected, *settings, **options):
        outcome = self.render(*(word for setting in settings for word in ("--set", setting)),
                              **options)
        self.assertNotEqual(outcome.returncode, 0, settings)
        self.assertIn(expected, outcome.stderr, settings)

    def test_plaintext_needs_leave(self):
        self.refuse("in plain text: set tls.enabled")

    def test_values_that_do_not_go_together(self):
        plain = PLAIN[1]
        device, local = "storage.kind=device", "storage.volume.local.enabled=true"
        self.refuse("set tls.existingSecret, or tls.certificate and tls.key", "tls.enabled=true")
        self.refuse("tls.mutual is true but tls.enabled is not", plain, "tls.mutual=true")
        self.refuse("tls.mutual is true: set tls.ca", "tls.enabled=true", "tls.mutual=true",
                    "tls.certificate=c", "tls.key=k")
        self.refuse("set storage.device.resource", plain, device)
        self.refuse("set storage.volume.local.nodes", plain, local)
        self.refuse("exclude each other", plain, local, "storage.volume.existingClaim=claim")

    def test_fields_of_the_configuration_that_the_chart_sets(self):
        for field in ("listen", "health_listen", "pool", "pool_size", "pool_must_exist",
                      "pool_identity_file", "journal_path", "journal_size", "tls_ca_file",
                      "allow_plaintext", "drain_delay"):
            self.refuse(f"config.{field}: this field is set from other values", PLAIN[1],
                        f"config.{field}=1")

    def test_names_that_no_service_may_have(self):
        self.refuse('"my.rel-lodgekv", which is not a valid name', PLAIN[1], release="my.rel")
        self.refuse('"1kv-lodgekv", which is not a valid name', PLAIN[1], release="1kv")
        for release in ("my.rel", "1kv"):
            named = self.manifests(*PLAIN, "--set", "fullnameOverride=kv", release=release)
            self.assertEqual(chart.the(named, "StatefulSet")["metadata"]["name"], "kv")

    def test_a_pool_that_is_with_its_journal_no_smaller_than_its_volume(self):
        for pool, volume in (("8GiB", "8Gi"), ("9GiB", "8Gi"), ("8GiB", "8G"), ("8064MiB", "8Gi"),
                             ("1TiB", "1T"), ("1TiB", "1023Gi"), ("85MiB", "100M")):
            sizes = (f"storage.poolSize={pool}", f"storage.volume.size={volume}")
            self.refuse(f"storage.poolSize {pool} does not fit on a volume of "
                        f"storage.volume.size {volume}", PLAIN[1], *sizes)
            # The size of an existing claim is unknown here.
            self.manifests(*PLAIN, "--set", ",".join(sizes), "--set",
                           "storage.volume.existingClaim=claim")
        for pool, volume in (("8063MiB", "8Gi"), ("7GiB", "8G"), ("1023GiB", "1Ti"),
                             ("16TiB", "18T"), ("84MiB", "100M")):
            self.manifests(*PLAIN, "--set",
                           f"storage.poolSize={pool},storage.volume.size={volume}")

    def test_a_journal_of_a_chosen_size_counts_toward_the_volume(self):
        sizes = "storage.poolSize=7GiB,storage.volume.size=8Gi"
        self.refuse("its journal of 1073741824 bytes (storage.journalSize)", PLAIN[1], sizes,
                    "storage.journalSize=1GiB")
        self.manifests(*PLAIN, "--set", f"{sizes},storage.journalSize=1023MiB")

    def test_sizes_that_the_daemon_refuses(self):
        of_claim = ("storage.volume.existingClaim=claim",)
        for pool in ("7MiB", "17TiB", "16777217MiB"):
            self.refuse(f"storage.poolSize is {pool}, it must be 8MiB to 16TiB", PLAIN[1],
                        f"storage.poolSize={pool}", *of_claim)
        for journal in ("65GiB", "65537MiB"):
            self.refuse(f"storage.journalSize is {journal}, it must be 1MiB to 64GiB", PLAIN[1],
                        f"storage.journalSize={journal}", *of_claim)
        for sizes in ("storage.poolSize=8MiB", "storage.poolSize=16TiB",
                      "storage.journalSize=64GiB"):
            self.manifests(*PLAIN, "--set", ",".join((sizes, *of_claim)))

    def test_a_pool_that_must_exist(self):
        def fields(*arguments):
            config = chart.the(self.manifests(*arguments), "ConfigMap")["data"]["lodgekv.yaml"]
            return yaml.safe_load(config)
        must = ("--set", "storage.poolMustExist=true")
        self.assertNotIn("pool_must_exist", fields(*PLAIN))
        device = ("-f", chart.CHART / "values-devdax.yaml")
        for arguments in (PLAIN, device):
            self.assertIs(fields(*arguments, *must)["pool_must_exist"], True)
        # A device has no place for the file.
        self.assertIn("pool_identity_file", fields(*PLAIN))
        self.assertNotIn("pool_identity_file", fields(*device))

    def test_persistent_memory_has_no_journal(self):
        self.manifests("-f", chart.CHART / "values-fsdax.yaml", "--set",
                       "storage.poolSize=8191MiB,storage.volume.size=8Gi")

    def test_labels_that_the_selectors_need(self):
        own = r"podLabels.app\.kubernetes\.io/name=mine"
        self.refuse("/podLabels/app.kubernetes.io~1name", PLAIN[1], own)
        self.manifests(*PLAIN, "--set", own.replace("app", "web"))

    def test_values_that_are_none(self):
        for setting in ("storage.poolSize=6Gi", "storage.poolSize=6GB", "storage.poolSize=100TiB",
                        "storage.journalSize=100GiB", "storage.volume.size=8GiB",
                        "storage.journalSize=1Gi", "storage.poolMustExist=once",
                        "storage.kind=block", "replicas=3", "tls.enable=true",
                        "drain.delaySeconds=5s", "drain.graceSeconds=601",
                        "config.log_levle=info", "nameOverride=my.kv", "nameOverride=Kv",
                        "fullnameOverride=1kv", "fullnameOverride=kv-",
                        "podDisruptionBudget.maxUnavailable=2", "supplementalGroups[0]=0",
                        "service.type=ExternalName", "recovery.maxSeconds=0",
                        "serviceMonitor.interval=15", "storage.device.resource=dax"):
            field = setting.split("=", maxsplit=1)[0].split("[")[0]
            parts = field.split(".")
            outcome = self.render(*PLAIN, "--set", setting)
            self.assertNotEqual(outcome.returncode, 0, setting)
            self.assertIn("values don't meet the specifications", outcome.stderr, setting)
            self.assertIn(parts[-1], outcome.stderr, setting)


if __name__ == "__main__":
    system_test.main()

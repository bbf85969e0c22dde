"""What the chart makes of each of its value files, as the golden files have it: valid for
Kubernetes, and true to the daemon. Needs no helm."""

import json
import pathlib
import re
import subprocess

import yaml

import certificates
import chart
import daemon
import system_test


def seconds(text):
    """Of a duration as lodgekv.yaml has it."""
    number, unit = re.fullmatch(r"(\d+)(ms|s|min|m|h)", text).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600}[unit]


def size(text):
    number, unit = re.fullmatch(r"(\d+)([KMGT]i)B?", text).groups()
    return int(number) << {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}[unit]


def port_of(address):
    return int(address.rsplit(":", 1)[1])


class Release:
    """The manifests of a golden file, and the parts that tests ask for."""

    def __init__(self, name):
        self.manifests = chart.golden(name)
        self.set = chart.the(self.manifests, "StatefulSet")
        self.pod = self.set["spec"]["template"]["spec"]
        self.labels = self.set["spec"]["template"]["metadata"]["labels"]
        (self.container,) = self.pod["containers"]
        self.ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}
        self.mounts = {mount["name"]: mount["mountPath"]
                       for mount in self.container["volumeMounts"]}
        self.volumes = {volume["name"]: volume for volume in self.pod["volumes"]}
        self.config_map = chart.the(self.manifests, "ConfigMap")
        self.config_text = self.config_map["data"]["lodgekv.yaml"]
        self.config = yaml.safe_load(self.config_text)

    def of_kind(self, kind):
        return [manifest for manifest in self.manifests if manifest["kind"] == kind]


class ChartTest(system_test.SystemTest):
    def for_each_release(self, story):
        for name in chart.CASES:
            with self.subTest(name):
                story(Release(name))

    def test_golden_files_are_of_this_chart(self):
        self.assertEqual(chart.SOURCES.read_text(), chart.digest(),
                         "the chart has changed: run tests/deploy/make_golden.py, look at the "
                         "difference, and commit both")

    # --- for the daemon ---

    def test_the_configuration_is_valid(self):
        self.for_each_release(self.check_config)

    def check_config(self, release):
        folder = self.folder()
        config = folder / "lodgekv.yaml"
        config.write_text(release.config_text)
        outcome = daemon.run(daemon.LODGEKVD, "--config", config, "--check-config",
                             *self.tls_flags(release, folder), env=daemon.environment())
        self.assertEqual(outcome.returncode, 0, outcome.stderr.decode())

    def test_the_schema_knows_the_fields_of_the_configuration(self):
        printed = daemon.run(daemon.LODGEKVD, "--print-config", env=daemon.environment())
        self.assertEqual(printed.returncode, 0, printed.stderr.decode())
        schema = json.loads((chart.CHART / "values.schema.json").read_text())
        known = schema["properties"]["config"]["propertyNames"]["enum"]
        self.assertEqual(sorted(known), sorted(yaml.safe_load(printed.stdout)),
                         "values.schema.json must name the fields of lodgekvd --print-config")

    def tls_flags(self, release, folder):
        """Certificates that exist, in place of those of the Secret."""
        if "tls_cert_file" not in release.config:
            return []
        if not certificates.have_openssl():
            self.skipTest("not installed: openssl")
        authority = certificates.Authority(folder)
        pair = authority.issue("server")
        flags = ["--tls-cert-file", pair.cert, "--tls-key-file", pair.key]
        if "tls_ca_file" in release.config:
            flags += ["--tls-ca-file", authority.cert]
        return flags

    def test_its_ports_are_those_of_the_configuration(self):
        self.for_each_release(self.check_ports)

    def check_ports(self, release):
        named = {"data": "listen", "metrics": "metrics_listen", "health": "health_listen"}
        self.assertEqual(release.ports, {port: port_of(release.config[field])
                                         for port, field in named.items()})
        for field in named.values():
            self.assertTrue(release.config[field].startswith("0.0.0.0:"), field)
        self.assertEqual(release.config["admin_listen"].split(":")[0], "127.0.0.1")
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            self.assertEqual(release.container[probe]["grpc"]["port"], release.ports["health"])
        for service in release.of_kind("Service"):
            for port in service["spec"]["ports"]:
                self.assertIn(port["targetPort"], release.ports)
        for policy in release.of_kind("NetworkPolicy"):
            for rule in policy["spec"]["ingress"]:
                for port in rule["ports"]:
                    self.assertIn(port["port"], release.ports)

    def test_the_files_it_reads_are_mounted(self):
        self.for_each_release(self.check_files)

    def check_files(self, release):
        flag, path = release.container["args"]
        self.assertEqual((flag, path), ("--config", release.mounts["config"] + "/lodgekv.yaml"))
        self.assertEqual(release.volumes["config"]["configMap"]["name"],
                         release.config_map["metadata"]["name"])
        keys = {"tls.crt", "tls.key", "ca.crt"}
        for field in ("tls_cert_file", "tls_key_file", "tls_ca_file"):
            if field in release.config:
                folder, name = release.config[field].rsplit("/", 1)
                self.assertEqual(folder, release.mounts["tls"])
                self.assertIn(name, keys)
        self.assertEqual("tls" in release.mounts, "tls_cert_file" in release.config)
        self.assertNotEqual("tls_cert_file" in release.config, "allow_plaintext" in release.config)
        for secret in release.of_kind("Secret"):
            self.assertEqual(secret["metadata"]["name"],
                             release.volumes["tls"]["secret"]["secretName"])
            self.assertEqual(set(secret["data"]), keys)

    def test_the_pool_is_on_what_is_mounted(self):
        self.for_each_release(self.check_pool)

    def check_pool(self, release):
        pool = release.config["pool"]
        limits = release.container["resources"].get("limits", {})
        if pool.startswith("/dev/"):
            self.assertNotIn("pool_size", release.config)
            self.assertNotIn("journal_size", release.config)
            self.assertEqual([name for name in limits if "/" in name], ["example.com/dax"])
            self.assertEqual(release.pod["securityContext"]["supplementalGroups"], [7411])
            return
        self.assertEqual(pool.rsplit("/", 1)[0], release.mounts["data"])
        for claim in release.set["spec"].get("volumeClaimTemplates", []):
            wanted = claim["spec"]["resources"]["requests"]["storage"]
            journal = size(release.config.get("journal_size", "128MiB"))
            self.assertLess(size(release.config["pool_size"]) + journal, size(wanted))
            for volume in release.of_kind("PersistentVolume"):
                self.check_local_volume(release, claim, volume)

    def check_local_volume(self, release, claim, volume):
        """Bound to each other before anybody else binds them, and mounted for DAX."""
        spec = volume["spec"]
        name = f"{claim['metadata']['name']}-{release.set['metadata']['name']}-0"
        self.assertEqual(spec["claimRef"]["name"], name)
        self.assertEqual(spec["claimRef"]["namespace"], "stores")
        self.assertEqual(claim["spec"]["volumeName"], volume["metadata"]["name"])
        self.assertEqual(claim["spec"]["storageClassName"], spec["storageClassName"])
        self.assertEqual(claim["spec"]["resources"]["requests"]["storage"],
                         spec["capacity"]["storage"])
        self.assertEqual((spec["mountOptions"], spec["volumeMode"]), (["dax"], "Filesystem"))
        self.assertEqual(spec["persistentVolumeReclaimPolicy"], "Retain")
        # The claim outlives the release; so must the volume to which it is bound.
        self.assertEqual(release.set["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"],
                         "Retain")
        self.assertEqual(volume["metadata"]["annotations"], {"helm.sh/resource-policy": "keep"})

    def test_the_grace_period_covers_the_drain(self):
        self.for_each_release(self.check_grace)
        mutual = Release("mutual_tls")
        self.assertEqual(mutual.pod["terminationGracePeriodSeconds"], 20 + 60 + 120 + 5)

    def check_grace(self, release):
        drain = seconds(release.config["drain_delay"]) + seconds(release.config["drain_grace"])
        self.assertGreaterEqual(release.pod["terminationGracePeriodSeconds"], drain + 30 + 5)

    def test_the_startup_probe_covers_recovery(self):
        for name, longest in (("pvc", 3600), ("mutual_tls", 7201)):
            probe = Release(name).container["startupProbe"]
            covered = probe["failureThreshold"] * probe["periodSeconds"]
            self.assertGreaterEqual(covered, longest)
            self.assertLess(covered, longest + probe["periodSeconds"])

    # --- for Kubernetes ---

    def test_selectors_meet_the_pod(self):
        self.for_each_release(self.check_selectors)

    def check_selectors(self, release):
        selectors = [release.set["spec"]["selector"]["matchLabels"]]
        selectors += [service["spec"]["selector"] for service in release.of_kind("Service")]
        selectors += [budget["spec"]["selector"]["matchLabels"]
                      for budget in release.of_kind("PodDisruptionBudget")]
        selectors += [policy["spec"]["podSelector"]["matchLabels"]
                      for policy in release.of_kind("NetworkPolicy")]
        for selector in selectors:
            self.assertGreater(len(selector), 1)
            self.assertLessEqual(selector.items(), release.labels.items())
        headless = chart.the(release.manifests, "Service", "-headless")
        self.assertEqual(release.set["spec"]["serviceName"], headless["metadata"]["name"])
        self.assertEqual(headless["spec"]["clusterIP"], "None")
        for monitor in release.of_kind("ServiceMonitor"):
            wanted = monitor["spec"]["selector"]["matchLabels"]
            matched = [service for service in release.of_kind("Service")
                       if wanted.items() <= service["metadata"]["labels"].items()]
            self.assertEqual(matched, [headless])
            (endpoint,) = monitor["spec"]["endpoints"]
            self.assertIn(endpoint["port"], [port["name"] for port in headless["spec"]["ports"]])
            self.assert_job_of_the_alerts(endpoint)

    def assert_job_of_the_alerts(self, endpoint):
        (job,) = [label["replacement"] for label in endpoint["relabelings"]
                  if label["targetLabel"] == "job"]
        rules = (chart.ROOT / "deploy/prometheus/rules.yml").read_text()
        wanted = re.findall(r'job=~"([^"]+)"', rules)
        self.assertTrue(wanted, "no alert looks for a job")
        for pattern in wanted:
            self.assertRegex(job, f"^(?:{pattern})$")

    def test_the_pod_is_restricted(self):
        """Kubernetes' pod security standard of that name, rule by rule, and no root file system."""
        self.for_each_release(self.check_restricted)

    def check_restricted(self, release):
        pod, container = release.pod["securityContext"], release.container["securityContext"]
        self.assertTrue(pod["runAsNonRoot"])
        self.assertGreater(pod["runAsUser"], 0)
        self.assertEqual(pod["seccompProfile"], {"type": "RuntimeDefault"})
        self.assertEqual(container["capabilities"], {"drop": ["ALL"]})
        self.assertIs(container["allowPrivilegeEscalation"], False)
        self.assertIs(container["readOnlyRootFilesystem"], True)
        self.assertIs(release.pod["automountServiceAccountToken"], False)
        self.assertFalse({"hostNetwork", "hostPID", "hostIPC", "initContainers"} & set(release.pod))
        kinds = {kind for volume in release.pod["volumes"] for kind in volume if kind != "name"}
        self.assertLessEqual(kinds, {"configMap", "secret", "persistentVolumeClaim"})
        self.assertFalse([port for port in release.container["ports"] if "hostPort" in port])

    def test_accepted_by_the_schemas_of_kubernetes(self):
        program = self.kubernetes_validate()
        for version in chart.KUBERNETES:
            for name in chart.CASES:
                with self.subTest(name=name, version=version):
                    outcome = self.validate(program, version, chart.GOLDEN / f"{name}.yaml")
                    self.assertEqual(outcome.returncode, 0, outcome.stderr)
                    # Custom resources alone have no schema there.
                    unknown = re.findall(r"Couldn't find schema for kind (\w+)", outcome.stderr)
                    self.assertLessEqual(set(unknown), {"ServiceMonitor"})

    def test_the_schemas_refuse_a_field_that_is_none(self):
        program = self.kubernetes_validate()
        bad = pathlib.Path(self.folder()) / "bad.yaml"
        text = (chart.GOLDEN / "pvc.yaml").read_text()
        for old, new in (("readOnlyRootFilesystem:", "readOnlyRootFilesytem:"),
                         ("maxUnavailable: 1", "maxUnavailable: [1]")):
            self.assertIn(old, text)
            bad.write_text(text.replace(old, new))
            outcome = self.validate(program, chart.KUBERNETES[-1], bad)
            self.assertNotEqual(outcome.returncode, 0, new)

    def kubernetes_validate(self):
        try:
            return chart.tool("kubernetes-validate", install=True)
        except chart.NoTool as reason:
            self.skipTest(str(reason))

    @staticmethod
    def validate(program, version, path):
        return subprocess.run([program, "--strict", "-k", version.rsplit(".", 1)[0], path],
                              capture_output=True, text=True, timeout=120, check=False)


if __name__ == "__main__":
    system_test.main()

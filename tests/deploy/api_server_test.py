"""The golden files before a real API server: strict validation and admission, in a namespace whose
pods must be restricted. No kubelet: nothing is mounted, run or probed.

LODGEKV_INSTALL_API_SERVER=yes compiles one where there is none (ten minutes).
"""

import copy
import os
import unittest

import chart
import kube
import system_test

# Their definitions come with the Prometheus operator.
CUSTOM = {"ServiceMonitor", "PrometheusRule"}
# The only one: the placeholder for certificates in the values of the golden files is not one.
WARNINGS = {"Secret": ['299 - "tls: failed to find any PEM data in certificate input"']}


def pod_of(stateful_set):
    template = copy.deepcopy(stateful_set["spec"]["template"])
    template["metadata"]["name"] = stateful_set["metadata"]["name"] + "-0"
    # Its claim is created by the StatefulSet.
    claims = stateful_set["spec"].get("volumeClaimTemplates", [])
    template["spec"]["volumes"] += [
        {"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": "a-claim"}}
        for claim in claims]
    return {"apiVersion": "v1", "kind": "Pod"} | template


class ApiServerTest(system_test.SystemTest):
    @classmethod
    def setUpClass(cls):
        install = os.environ.get("LODGEKV_INSTALL_API_SERVER") == "yes"
        try:
            program = kube.programs(install=install)
        except chart.NoTool as reason:
            raise unittest.SkipTest(str(reason)) from reason
        cls.server = cls.enterClassContext(kube.ApiServer(program, namespace="stores"))

    def assert_created(self, manifest):
        answer = self.server.create(manifest)
        self.assertEqual(answer.code, 201, answer.text)
        self.assertEqual(answer.warnings, WARNINGS.get(manifest["kind"], []))

    def test_every_manifest_is_accepted(self):
        for name in chart.CASES:
            for manifest in chart.golden(name):
                if manifest["kind"] not in CUSTOM:
                    with self.subTest(name=name, kind=manifest["kind"]):
                        self.assert_created(manifest)

    def test_their_pods_are_admitted_as_restricted(self):
        for name in chart.CASES:
            with self.subTest(name):
                self.assert_created(pod_of(chart.the(chart.golden(name), "StatefulSet")))

    def test_what_it_would_refuse(self):
        stateful_set = copy.deepcopy(chart.the(chart.golden("pvc"), "StatefulSet"))
        pod = pod_of(stateful_set)
        del pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"]
        answer = self.server.create(pod)
        self.assertEqual(answer.code, 403)
        self.assertIn('violates PodSecurity "restricted:latest"', answer.message)
        container = stateful_set["spec"]["template"]["spec"]["containers"][0]
        container["securityContext"]["runAsNonRoot"] = False
        answer = self.server.create(stateful_set)
        self.assertIn("PodSecurity", "".join(answer.warnings))
        container["livenesProbe"] = container.pop("livenessProbe")
        answer = self.server.create(stateful_set)
        self.assertEqual(answer.code, 400)
        self.assertIn('unknown field "spec.template.spec.containers[0].livenesProbe"',
                      answer.message)
        service = copy.deepcopy(chart.the(chart.golden("pvc"), "Service", "-headless"))
        service["spec"]["ports"][1]["name"] = "data"
        answer = self.server.create(service)
        self.assertEqual(answer.code, 422)
        self.assertIn("Duplicate value", answer.message)


if __name__ == "__main__":
    system_test.main()

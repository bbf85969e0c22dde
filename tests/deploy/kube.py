"""A real API server of Kubernetes over an etcd, on loopback, for as long as a test: it checks
manifests as a cluster would, and nothing runs in it."""

import contextlib
import json
import pathlib
import secrets
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import certificates
import chart
import daemon

START_SECONDS = 120
# Where the API has each kind of the chart: a cluster's own, and those of a namespace.
PLACES = {
    "Namespace": "api/v1/namespaces",
    "PersistentVolume": "api/v1/persistentvolumes",
    "ConfigMap": "api/v1/namespaces/{namespace}/configmaps",
    "Pod": "api/v1/namespaces/{namespace}/pods",
    "Secret": "api/v1/namespaces/{namespace}/secrets",
    "Service": "api/v1/namespaces/{namespace}/services",
    "ServiceAccount": "api/v1/namespaces/{namespace}/serviceaccounts",
    "StatefulSet": "apis/apps/v1/namespaces/{namespace}/statefulsets",
    "PodDisruptionBudget": "apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets",
    "NetworkPolicy": "apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies",
}


class Answer:
    def __init__(self, code, headers, body):
        self.code = code
        self.warnings = headers.get_all("Warning") or []
        self.text = body.decode(errors="replace")

    @property
    def message(self):
        return json.loads(self.text).get("message", "")


class ApiServer(contextlib.ExitStack):
    def __init__(self, program, *, namespace):
        super().__init__()
        self.program = program
        self.namespace = namespace
        self.token = secrets.token_hex(16)
        self.address = f"127.0.0.1:{daemon.free_port()}"

    def __enter__(self):
        super().__enter__()
        self.folder = self.enter_context(daemon.folder())
        with contextlib.ExitStack() as started:
            started.push(self)
            etcd = self.start_etcd()
            self.start_api_server(etcd)
            self.await_ready()
            started.pop_all()
        modes = ("enforce", "warn")
        labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in modes}
        self.create({"apiVersion": "v1", "kind": "Namespace",
                     "metadata": {"name": self.namespace, "labels": labels}}, dry_run=False)
        return self

    def spawn(self, name, *words):
        log = self.enter_context(open(self.folder / f"{name}.log", "wb"))
        # It must not outlive a killed test.
        process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *map(str, words)],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.callback(self.end, process)

    @staticmethod
    def end(process):
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def start_etcd(self):
        client, peer = (f"http://127.0.0.1:{daemon.free_port()}" for _ in range(2))
        self.spawn("etcd", "etcd", "--data-dir", self.folder / "etcd", "--unsafe-no-fsync",
                   "--listen-client-urls", client, "--advertise-client-urls", client,
                   "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                   "--initial-cluster", f"default={peer}")
        return client

    def start_api_server(self, etcd):
        key, public = self.folder / "sa.key", self.folder / "sa.pub"
        certificates.openssl("genrsa", "-out", key, "2048")
        certificates.openssl("rsa", "-in", key, "-pubout", "-out", public)
        tokens = self.folder / "tokens"
        tokens.write_text(f"{self.token},test,test,system:masters\n")
        self.spawn("kube-apiserver", self.program, f"--etcd-servers={etcd}",
                   "--bind-address=127.0.0.1", f"--secure-port={self.address.split(':')[1]}",
                   f"--cert-dir={self.folder / 'certificates'}", f"--token-auth-file={tokens}",
                   "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
                   "--service-account-issuer=https://kubernetes.default.svc",
                   f"--service-account-key-file={public}",
                   f"--service-account-signing-key-file={key}",
                   # Nothing here creates the accounts that it would ask for.
                   "--disable-admission-plugins=ServiceAccount",
                   "--endpoint-reconciler-type=none")

    def await_ready(self):
        deadline = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(OSError):
                if self.ask("GET", "readyz").code == 200:
                    return
            if time.monotonic() > deadline:
                log = (self.folder / "kube-apiserver.log").read_text(errors="replace")
                raise RuntimeError(f"no API server after {START_SECONDS} s:\n{log[-4000:]}")
            time.sleep(0.2)

    def ask(self, method, path, body=None):
        # It has just created its certificate.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        request = urllib.request.Request(
            f"https://{self.address}/{path}", method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30, context=context) as answer:
                return Answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.headers, error.read())

    def create(self, manifest, *, dry_run=True):
        """Through admission and validation, strictly; with dry_run it is then forgotten."""
        place = PLACES[manifest["kind"]].format(namespace=self.namespace)
        options = "fieldValidation=Strict" + ("&dryRun=All" if dry_run else "")
        return self.ask("POST", f"{place}?{options}", manifest)


def programs(*, install):
    """The API server's program; raises chart.NoTool where it, or etcd, is not here."""
    if shutil.which("etcd") is None:
        raise chart.NoTool("not installed: etcd (Debian's etcd-server)")
    if not certificates.have_openssl():
        raise chart.NoTool("not installed: openssl")
    return pathlib.Path(chart.tool("kube-apiserver", install=install))

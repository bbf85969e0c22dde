"""deploy/local/stack: a daemon and a Prometheus come up with one command and go with one."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest
import urllib.parse
import urllib.request

import daemon
import system_test

STACK = pathlib.Path(__file__).resolve().parents[2] / "deploy/local/stack"
RULES = STACK.parents[1] / "prometheus/rules.yml"


def runs(pid):
    """A dead one that nobody has waited for yet has no command line."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except FileNotFoundError:
        return False


@unittest.skipUnless(shutil.which("prometheus"), "not installed: prometheus")
class LocalTest(system_test.SystemTest):
    def setUp(self):
        self.workdir = self.folder()
        self.port = self.three_ports()
        self.prometheus = daemon.free_port()
        self.server = f"127.0.0.1:{self.port}"
        self.addCleanup(self.stack, "down")

    @staticmethod
    def three_ports():
        port = daemon.free_port()
        while [daemon.free_port(), daemon.free_port()] != [port + 1, port + 2]:
            port = daemon.free_port()
        return port

    def stack(self, *words, **more):
        # With a pool in memory, since a disk would only make this slower.
        variables = {"LODGEKV_STACK": self.workdir / "stack",
                     "LODGEKV_STACK_POOL": self.workdir / "lodgekv.pool", "LODGEKV_BIN": daemon.BIN,
                     "LODGEKV_STACK_PORT": self.port, "PROMETHEUS_PORT": self.prometheus,
                     "LODGEKV_STACK_SCRAPE": "1s", "LODGEKV_POOL_SIZE": "64MiB",
                     "LODGEKV_ALLOW_VOLATILE_MEDIUM": "true"}
        return subprocess.run([STACK, *words], env=daemon.environment(**variables | more),
                              capture_output=True, text=True, timeout=200, check=False)

    def expect(self, *words):
        outcome = self.stack(*words)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return outcome.stdout

    def pids(self):
        return {name: int((self.workdir / "stack" / f"{name}.pid").read_text())
                for name in ("lodgekvd", "prometheus")}

    def ctl(self, *words):
        return daemon.run(daemon.LODGECTL, "--server", self.server, *words,
                          env=daemon.environment()).stdout

    def ask(self, path, **query):
        url = f"http://127.0.0.1:{self.prometheus}{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def await_value(self, query, wanted):
        deadline = time.monotonic() + 30
        while True:
            result = self.ask("/api/v1/query", query=query)["result"]
            if [float(each["value"][1]) for each in result] == [wanted]:
                return
            self.assertLess(time.monotonic(), deadline, result)
            time.sleep(0.2)

    def test_up_and_down(self):
        self.assertIn(self.server, self.expect("up"))
        self.assertRegex(self.ctl("put", "hello", "world"), b"^ok")
        self.await_value('up{job="lodgekv"}', 1)
        self.await_value('sum(lodgekv_rpc_latency_seconds_count{rpc="Put",code="OK"})', 1)
        groups = self.ask("/api/v1/rules")["groups"]
        self.assertEqual({group["file"] for group in groups}, {str(RULES)})
        pids = self.pids()
        self.expect("up")
        self.assertEqual(self.pids(), pids, "the second call starts nothing")
        self.expect("status")
        self.expect("down")
        for pid in pids.values():
            self.assertFalse(runs(pid))
        outcome = self.stack("status")
        self.assertEqual((outcome.returncode, outcome.stdout.count("is not running")), (1, 2))
        self.expect("up")
        self.assertEqual(self.ctl("get", "hello"), b"world\n")
        self.assertIn("clean=yes", (self.workdir / "stack/lodgekvd.log").read_text())

    def test_a_pool_that_is_lost_is_not_made_anew(self):
        self.expect("up")
        self.expect("down")
        pool = self.workdir / "lodgekv.pool"
        pool.unlink()
        outcome = self.stack("up")
        self.assertNotEqual(outcome.returncode, 0)
        self.assertRegex(outcome.stderr, f"no pool at {pool}, and pool [0-9a-f]{{32}} was served")
        self.assertFalse(pool.exists())
        (self.workdir / "lodgekv.pool_id").unlink()
        self.expect("up")

    def test_one_that_ended_is_started_again(self):
        self.expect("up")
        before = self.pids()
        # Only the daemon; processes that this script did not start are not among its pids.
        pid = before["lodgekvd"]
        self.assertEqual(pathlib.Path(f"/proc/{pid}/comm").read_text(), "lodgekvd\n")
        signal.pidfd_send_signal(self.enter_pidfd(pid), signal.SIGKILL)
        while runs(pid):
            time.sleep(0.01)
        self.assertIn("lodgekvd    is not running", self.stack("status").stdout)
        self.expect("up")
        after = self.pids()
        self.assertNotEqual(after["lodgekvd"], pid)
        self.assertEqual(after["prometheus"], before["prometheus"])

    def enter_pidfd(self, pid):
        handle = os.pidfd_open(pid)
        self.addCleanup(os.close, handle)
        return handle

    def test_why_it_does_not_start(self):
        outcome = self.stack("up", LODGEKV_POOL_SIZE="1GB")
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("LODGEKV_POOL_SIZE", outcome.stderr)
        self.assertIn("lodgekvd ended with status 2; the lines above are from", outcome.stderr)
        outcome = self.stack("up", LODGEKV_BIN=self.workdir)
        self.assertIn("build them first", outcome.stderr)
        self.assertIn("it takes up, down or status", self.stack("away").stderr)


if __name__ == "__main__":
    system_test.main()

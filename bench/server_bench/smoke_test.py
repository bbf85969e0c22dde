#!/usr/bin/env python3
"""smoke_test.py BIN: the benchmarks with tiny counts, and the clients alone.

BIN is the folder of the programs. Times are not checked here.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import call_figures
import call_rounds
import figures
import journal_rounds
import servers
from shared import ports

BIN = pathlib.Path()
BENCH_FILE = pathlib.Path(__file__).with_name("bench_file.py")
CALL_ROUNDS = BENCH_FILE.with_name("call_rounds.py")
TINY = ["--rounds=1", "--seconds=0.1", "--records=200", "--load-seconds=60",
        "--journal-seconds=0.2", "--pool-size=64MiB", "--allow-memory"]


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=250, check=False, **options)


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lodgekv-test-", dir=os.environ.get("TMPDIR"))
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class BenchFile(WithFolder):
    def bench(self, *arguments, **environment):
        outcome = run(sys.executable, "-B", BENCH_FILE, f"--bin={BIN}", f"--dir={self.folder}",
                      *TINY, *arguments, env=dict(os.environ, **environment))
        self.assertEqual(list(self.folder.iterdir()), [], "its files were not removed")
        return outcome

    def test_every_engine_and_no_peer(self):
        tools = self.folder.parent / f"{self.folder.name}-tools"
        tools.mkdir()
        self.addCleanup(tools.rmdir)
        for tool in ("stat", "find"):
            (tools / tool).symlink_to(f"/usr/bin/{tool}")
            self.addCleanup((tools / tool).unlink)
        outcome = self.bench(PATH=str(tools))
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertIn("not installed (apt-get install etcd-server), skipped", outcome.stdout)
        self.assertIn("not installed (apt-get install redis-server), skipped", outcome.stdout)
        self.assertIn("not measured: redis is not installed", outcome.stdout)
        for engine in run(BIN / "server_bench", "--engines").stdout.split():
            for in_flight in (1, 64, 256):
                self.assertRegex(outcome.stdout, rf"\n\| {engine} \| {in_flight} \| [1-9]")
            self.assertRegex(outcome.stdout, rf"\n\| {engine} \| random \| [1-9]")
            self.assertRegex(outcome.stdout, rf"{engine}: 64 in flight, puts of the gRPC no-op's "
                                             r"\| [0-9.]+ \| at least 0.7 \| (met|missed) \|")

    def test_peers_that_are_here(self):
        here = [peer.name for peer in servers.PEERS if peer.name not in servers.missing_peers()]
        if not here:
            self.skipTest("neither etcd nor Redis is installed")
        outcome = self.bench("--parts=puts", "--engines=lodgetree")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        for peer in here:
            self.assertRegex(outcome.stdout, rf"\n\| {peer} \| 256 \| [1-9]")

    def test_errors_say_what_would_be_right(self):
        self.assertIn("there are puts, load", self.bench("--parts=put").stderr)
        self.assertIn("is no folder", self.bench("--dir=/nonexistent").stderr)
        memory = pathlib.Path("/dev/shm")
        if servers.file_system_of(memory) in servers.MEMORY:
            outcome = run(sys.executable, "-B", BENCH_FILE, f"--bin={BIN}", f"--dir={memory}")
            self.assertNotEqual(outcome.returncode, 0)
            self.assertIn("name a folder on a disk with --dir", outcome.stderr)


class Client(WithFolder):
    def test_counts_and_samples(self):
        samples = self.folder / "samples"
        with servers.Lodgekvd(self.folder / "null", BIN, "null") as server:
            outcome = run(BIN / "server_bench", "--server", server.address, "--in-flight=1,7",
                          "--threads=2", "--puts=1000", "--warm-up=0", "--seconds=60",
                          f"--samples={samples}")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        rows = [json.loads(line) for line in outcome.stdout.splitlines()]
        self.assertEqual([(row["in_flight"], row["puts"]) for row in rows], [(1, 1000), (7, 1000)])
        for row in rows:
            self.assertGreater(row["puts_per_second"], 0)
            self.assertLessEqual(row["p50_us"], row["p99_us"])
            self.assertLessEqual(row["p99_us"], row["p999_us"])
        self.assertEqual(samples.stat().st_size, 1000 * 16)

    def test_failures(self):
        gone = f"127.0.0.1:{ports.free_port()}"
        outcome = run(BIN / "server_bench", "--protocol=redis", "--server", gone)
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("cannot connect", outcome.stderr)
        outcome = run(BIN / "server_bench", "--protocol=redis", "--server=example.org:1")
        self.assertIn("it has to be 127.0.0.1:PORT", outcome.stderr)
        self.assertIn("--server is missing", run(BIN / "server_bench").stderr)


class Ycsb(WithFolder):
    def workloads(self, server, *arguments):
        return run(BIN / "server_bench", "--server", server.address, "--keys=1000", "--warm-up=0",
                   "--seconds=60", "--puts=300", "--in-flight=8", "--workload", *arguments)

    def test_every_workload(self):
        with servers.Lodgekvd(self.folder / "dram", BIN, "dram") as server:
            outcome = self.workloads(server, "a,b,c,f,d,e", "--load", "--value-bytes=2000")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        rows = [json.loads(line) for line in outcome.stdout.splitlines()]
        self.assertEqual([(row["workload"], row["distribution"], sorted(row["each"]))
                          for row in rows],
                         [("a", "zipfian", ["read", "update"]),
                          ("b", "zipfian", ["read", "update"]),
                          ("c", "zipfian", ["read"]),
                          ("f", "zipfian", ["read", "read_modify_write"]),
                          ("d", "latest", ["insert", "read"]),
                          ("e", "zipfian", ["insert", "scan"])])
        for row in rows:
            self.assertEqual(row["operations"], 300)
            self.assertEqual(sum(each["operations"] for each in row["each"].values()), 300)
            self.assertGreater(row["operations_per_second"], 0)

    def test_records_that_are_not_found_fail_it(self):
        with servers.Lodgekvd(self.folder / "null", BIN, "null") as server:
            for workload, message in (("c", "was read with 0 bytes, not 1000"),
                                      ("e", "a scan found nothing")):
                outcome = self.workloads(server, workload)
                self.assertEqual(outcome.returncode, 1)
                self.assertIn(message, outcome.stderr)
                outcome = self.workloads(server, workload, "--any-answer")
                self.assertEqual(outcome.returncode, 0, outcome.stderr)


class CallRounds(WithFolder):
    def start(self, *arguments):
        return subprocess.Popen([sys.executable, "-B", CALL_ROUNDS, f"--bin={BIN}", "--quick",
                                 f"--dir={self.folder}", "--keys=2000", *arguments],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_every_row_has_a_figure(self):
        table, windows = self.folder / "table.md", self.folder / "windows.json"
        rounds = self.start("--rounds=1", "--seconds=0.05", "--warm-up=0.01",
                            f"--markdown={table}", f"--json={windows}")
        out, err = rounds.communicate(timeout=250)
        self.assertEqual(rounds.returncode, 0, err)
        self.assertEqual(sorted(self.folder.iterdir()), [table, windows], "files are left")
        self.assertEqual(table.read_text(), out)
        for row in call_rounds.ROWS:
            if not row.beside_scans:
                for server in (servers.NOOP, "lodgetree", "lbtree"):
                    self.assertRegex(out, re.escape(f"| {row.text} | {row.in_flight} | "
                                                    f"{row.client} | {server} | ") + "[1-9]")
        for engine in ("lodgetree", "lbtree"):
            self.assertRegex(out, rf"\n\| {engine} \| 8 \| [1-9].* \| at least 15,000/s \| ")
        said = json.loads(windows.read_text())
        beside = [window for window in said["windows"] if window["beside_scans"]]
        self.assertEqual([window["server"] for window in beside], ["lodgetree", "lbtree"])
        self.assertGreater(min(window["scanned_bytes_per_second"] for window in beside), 0)
        self.assertEqual(said["goals"][0]["least"], 0.9)

    def test_nothing_is_left_after_an_interrupt(self):
        rounds = self.start()
        while "keys in" not in rounds.stderr.readline():
            self.assertIsNone(rounds.poll())
        children = [int(pid) for pid in pathlib.Path(
            f"/proc/{rounds.pid}/task/{rounds.pid}/children").read_text().split()]
        self.assertGreaterEqual(len(children), 5)
        rounds.send_signal(signal.SIGINT)
        rounds.communicate(timeout=60)
        self.assertNotEqual(rounds.returncode, 0)
        self.assertEqual(list(self.folder.iterdir()), [])
        # A client that was just being started is ended by the kernel, after its parent.
        deadline = time.monotonic() + 20
        while any(pathlib.Path(f"/proc/{pid}").exists() for pid in children):
            self.assertLess(time.monotonic(), deadline, children)
            time.sleep(0.05)


class CallCost(WithFolder):
    KINDS = ("get", "put", "batch_get", "batch_write", "scan")

    def cost(self, kind, *arguments):
        outcome = run(BIN / "call_cost", "--call", kind, "--keys=1000", "--seconds=0.05",
                      *arguments)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return json.loads(outcome.stdout)

    def test_a_server_and_the_engine_alone(self):
        with servers.Lodgekvd(self.folder / "dram", BIN, "dram") as server:
            for kind in self.KINDS:
                of_server = self.cost(kind, "--server", server.address, "--connections=2",
                                      "--server-pid", server.process.pid, "--all-found",
                                      "--warm-up=0.02")
                of_engine = self.cost(kind, "--engine=dram")
                self.assertGreater(of_server["sleeps_per_call"], 0, kind)
                self.assertGreater(of_server["processor_us_per_call"],
                                   of_engine["processor_us_per_call"], kind)
                self.assertGreater(of_engine["processor_ns_per_operation"], 0, kind)
            metrics = server.metrics()
        for name in ("Get", "Put", "BatchGet", "BatchWrite", "Scan"):
            answered = metrics.value("lodgekv_rpc_latency_seconds_count", rpc=name, code="OK")
            self.assertGreater(answered, 0, name)

    def noop(self, kind, *arguments, full=0, unix=False, seconds=0.05):
        with servers.Noop(self.folder / "noop", BIN, full) as server:
            address = f"unix:{server.unix}" if unix else server.address
            return run(BIN / "call_cost", "--call", kind, "--keys=1000", f"--seconds={seconds}",
                       "--filled", "--server", address, "--server-pid", server.process.pid,
                       *arguments)

    def test_a_server_that_does_nothing(self):
        for kind in self.KINDS:
            for full, unix in ((0, False), (100, True)):
                arguments = ["--all-found"] if full else []
                outcome = self.noop(kind, *arguments, full=full, unix=unix)
                self.assertEqual(outcome.returncode, 0, outcome.stderr)
                row = json.loads(outcome.stdout)
                self.assertGreater(row["calls"], 8, kind)
                self.assertGreater(row["processor_us_per_call"], 0, kind)
                self.assertLessEqual(row["p50_us"], row["p99_us"])

    def test_answers_that_found_nothing_fail_it(self):
        for kind in self.KINDS:
            outcome = self.noop(kind, "--all-found")
            self.assertEqual(outcome.returncode, 1, kind)
            self.assertIn("an answer has 5 bytes, a right one has at least ", outcome.stderr)

    def test_an_open_loop_keeps_its_rate(self):
        outcome = self.noop("get", "--rate=400", seconds=0.5)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        row = json.loads(outcome.stdout)
        self.assertEqual((row["calls"], row["wanted_calls_per_second"]), (200, 400))

    def test_an_open_loop_counts_what_was_due_while_one_of_both_stood_still(self):
        for which in ("server", "client"):
            with servers.Noop(self.folder / "noop", BIN) as server:
                client = subprocess.Popen([BIN / "call_cost", "--call=get", "--rate=1000",
                                           "--seconds=1", "--filled", "--server", server.address,
                                           "--server-pid", str(server.process.pid)],
                                          stdout=subprocess.PIPE, text=True)
                stopped = server.process if which == "server" else client
                time.sleep(0.2)
                stopped.send_signal(signal.SIGSTOP)
                time.sleep(0.4)
                stopped.send_signal(signal.SIGCONT)
                row = json.loads(client.communicate(timeout=60)[0])
            self.assertEqual(row["calls"], 1000)
            self.assertGreater(row["p99_us"], 300_000, which)

    def test_a_refused_call_fails_it(self):
        server = servers.Lodgekvd(self.folder / "null", BIN, "null")
        server.words += ["--max-batch-operations", "10"]
        with server:
            outcome = run(BIN / "call_cost", "--keys=1000", "--seconds=0.05", "--server",
                          server.address, "--server-pid", server.process.pid)
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("answered with an error", outcome.stderr)


class Figures(unittest.TestCase):
    def test_shares_are_those_of_a_round(self):
        row = call_rounds.Row("get", 64)
        results = {(row, server): [{"calls_per_second": rate, "processor_us_per_call": cost}
                                   for rate, cost in zip(rates, (10, 20, 30))]
                   for server, rates in ((servers.NOOP, (100, 200, 400)),
                                         ("tree", (96, 180, 392)), ("null", (90, 90, 90)))}
        goals = call_figures.Report(results, ["tree"]).goals()
        self.assertEqual([goal.row()[1:] for goal in goals],
                         [["0.96 (0.90 to 0.98)", "at least 0.95", "met"],
                          ["1.00 (1.00 to 1.00)", "at most 1.15", "met"]])

    def test_goals(self):
        self.assertEqual(figures.Goal("a", [1, 3, 2], most=2).row(),
                         ["a", "2.00 (1.00 to 3.00)", "at most 2", "met"])
        self.assertEqual(figures.Goal("a", [149_999.0], least=150_000, unit="/s").row(),
                         ["a", "149,999/s", "at least 150,000/s", "missed"])
        self.assertEqual(figures.Goal("a", [], most=5, why="no such metric").row(),
                         ["a", "-", "at most 5", "not measured: no such metric"])

    def test_a_busy_machine_is_told(self):
        row = call_rounds.Row("get", 64)
        for slowest, told in ((100, False), (60, True)):
            window = {"processor_us_per_call": 1, "sleeps_per_call": 1, "p50_us": 1, "p99_us": 1}
            report = call_figures.Report(
                {(row, servers.NOOP): [{"calls_per_second": rate, **window}
                                       for rate in (110, slowest, 120)]}, [])
            self.assertEqual("In 1 of 1 rows" in report.text(), told)

    def test_puts_beside_checkpoints(self):
        checkpoints = journal_rounds.Checkpoints()
        second = 1_000_000_000
        for moment, total in ((10, 5.0), (11, 5.0), (12, 7.0), (20, 7.0), (21, 7.5)):
            checkpoints.add(moment * second, moment * second, total)
        self.assertEqual(checkpoints.intervals,
                         [(9 * second, 12 * second), (19 * second + second // 2, 21 * second)])
        samples = []
        for answered, latency in ((8, 1), (10, 2), (13, 3), (14, 1), (19, 1), (21, 1), (23, 1)):
            samples += [answered * second, latency * second]
        during, others = journal_rounds.split(samples, checkpoints)
        self.assertEqual([latency // second for latency in during], [2, 3, 1])
        self.assertEqual([latency // second for latency in others], [1, 1, 1, 1])


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)

"""lodgectl bench against the real daemon: that its numbers add up, and that it leaves data alone.

On the dram engine, but where the key format matters. No test says how fast something has to be.
"""

import json
import math
import os
import pty
import signal
import time
import unittest

import certificates
import daemon
import system_test

FIELDS = {
    "version", "server", "workload", "distribution", "keys", "key_bytes", "value_bytes",
    "connections", "threads", "in_flight", "rate", "batch", "seed", "duration_seconds", "seconds",
    "interrupted", "calls", "operations", "calls_per_second", "operations_per_second", "not_found",
    "not_sent", "not_answered", "error_count", "errors", "operation_error_count",
    "operation_errors", "latency_us", "each"}
PERCENTILES = ["p50", "p90", "p99", "p99.9", "max"]
SHARES = {"get": {"read": 100}, "put": {"update": 100}, "mixed": {"read": 50, "update": 50},
          "scan": {"scan": 100}, "ycsb-a": {"read": 50, "update": 50},
          "ycsb-b": {"read": 95, "update": 5}, "ycsb-c": {"read": 100},
          "ycsb-d": {"read": 95, "insert": 5}, "ycsb-e": {"insert": 5, "scan": 95},
          "ycsb-f": {"read": 50, "read_modify_write": 50}}
KEYS = 500
# Beside the range of the bench's keys.
NEIGHBOURS = [b"lodgectl-bench", b"lodgectl-bench.", b"lodgectl-bench0", b"lodgectl-benchz", b"a"]
# Standard deviations that a share may be off by chance: fewer than one in a million are.
DEVIATIONS = 5
PATIENCE_SECONDS = 60


class BenchTest(system_test.SystemTest):
    def setUp(self):
        self.server = self.daemon(self.folder(), engine="dram")

    def measure(self, *words, code=0):
        """The JSON of a run, whose fields and sums are looked at."""
        outcome = self.server.ctl("bench", "--json", *words)
        self.assertEqual(outcome.returncode, code, outcome.stderr)
        return self.parse(outcome.stdout)

    def parse(self, output):
        run = json.loads(output)
        self.assertEqual(output.count(b"\n"), 1)
        self.assertEqual(set(run), FIELDS)
        self.assertEqual(run["calls"], sum(each["calls"] for each in run["each"].values()))
        self.assertEqual(run["error_count"], sum(run["errors"].values()))
        self.assertAlmostEqual(run["calls_per_second"] * run["seconds"], run["calls"], delta=1)
        self.assertAlmostEqual(run["operations_per_second"] * run["seconds"], run["operations"],
                               delta=1)
        for latency in [run["latency_us"], *(each["latency_us"] for each in run["each"].values())]:
            self.assertEqual(list(latency), PERCENTILES)
            numbers = [latency[name] for name in PERCENTILES if latency[name] is not None]
            self.assertEqual(numbers, sorted(numbers))
        return run

    def load(self, *words):
        self.assertEqual(self.server.ctl("bench", "--load", "--keys", KEYS, *words).stderr,
                         b"loaded %d keys\n" % KEYS)

    def start(self, *words):
        return self.server.start_ctl("bench", "--json", *words)

    def finish(self, process):
        output, errors = process.communicate(timeout=PATIENCE_SECONDS)
        return self.parse(output), process.returncode, errors

    def await_keys(self):
        """Until a run that writes is under way."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.server.key_count() == 0:
            self.assertLess(time.monotonic(), deadline, "nothing was written")

    # --- what is measured ---

    def test_each_workload_has_its_shares(self):
        self.load()
        for workload, shares in SHARES.items():
            with self.subTest(workload=workload):
                run = self.measure("--workload", workload, "--keys", KEYS, "--duration", "500ms")
                self.assertEqual(set(run["each"]), set(shares))
                calls = run["calls"]
                self.assertGreater(calls, 0)
                self.assertEqual((run["not_found"], run["error_count"]), (0, 0))
                for name, percent in shares.items():
                    share = percent / 100
                    self.assertAlmostEqual(
                        run["each"][name]["calls"], calls * share, msg=name,
                        delta=DEVIATIONS * math.sqrt(calls * share * (1 - share)) + 1)

    def test_batches_and_sessions_count_operations(self):
        self.load()
        for workload in ("batch-get", "batch-write", "session"):
            with self.subTest(workload=workload):
                run = self.measure("--workload", workload, "--keys", KEYS, "--batch", 7,
                                   "--distribution", "zipfian", "--duration", "300ms")
                self.assertGreater(run["calls"], 0)
                self.assertEqual(run["operations"], 7 * run["calls"])
                self.assertEqual((run["not_found"], run["error_count"]), (0, 0))
        self.assertEqual(self.server.key_count(), KEYS)

    def test_scans_count_items(self):
        self.load()
        run = self.measure("--workload", "scan", "--keys", KEYS, "--batch", KEYS, "--in-flight", 2,
                           "--distribution", "latest", "--duration", "300ms")
        self.assertGreater(run["operations"], run["calls"])
        self.assertLessEqual(run["operations"], KEYS * run["calls"])

    def test_records_are_as_wanted(self):
        self.load("--key-bytes", 40, "--value-bytes", "1KiB")
        keys = self.server.ask("scan", "--keys-only").splitlines()
        self.assertEqual({len(key) for key in keys}, {40})
        self.assertEqual(len(self.server.ask("get", "--raw", keys[0])), 1024)
        run = self.measure("--workload", "put", "--keys", KEYS, "--key-bytes", 40, "--value-bytes",
                           64, "--duration", "300ms", "--threads", 2, "--connections", 3)
        self.assertEqual((run["threads"], run["connections"], run["value_bytes"]), (2, 3, 64))
        self.assertEqual(self.server.key_count(), KEYS)

    def test_records_that_are_deleted_meanwhile_are_not_found(self):
        self.load()
        # Not the first and the last, by which a run sees that keys were loaded.
        self.server.ask("load", "--delete", "-",
                        input=b"".join(map(self.key, range(1, KEYS // 2))))
        run = self.measure("--workload", "get", "--keys", KEYS, "--duration", "300ms")
        self.assertGreater(run["not_found"], 0)
        self.assertLess(run["not_found"], run["calls"])

    @staticmethod
    def key(number):
        return b"lodgectl-bench/%016x.\n" % (number * 0x9e3779b97f4a7c15 % (1 << 64))

    # --- an open loop ---

    def test_all_calls_of_a_rate_are_accounted_for(self):
        self.load()
        for words in (("get",), ("get", "--threads", 3), ("session", "--batch", 3)):
            with self.subTest(words=words):
                run = self.measure("--workload", *words, "--keys", KEYS, "--rate", 300,
                                   "--duration", "1s")
                self.assertEqual(run["calls"] + run["not_sent"], 300)

    def test_a_server_that_stands_still_shows_in_the_percentiles(self):
        for workload in ("put", "session"):
            with self.subTest(workload=workload):
                self.server.ctl("bench", "--clean")
                process = self.start("--workload", workload, "--rate", 60, "--duration", "10s",
                                     "--in-flight", 8)
                self.await_keys()
                self.server.process.send_signal(signal.SIGSTOP)
                time.sleep(3)
                self.server.process.send_signal(signal.SIGCONT)
                run, code, errors = self.finish(process)
                self.assertEqual(code, 0, errors)
                self.assertEqual(run["calls"] + run["not_sent"], 600)
                # A fifth of the calls was due in the first two seconds of the three. A closed loop
                # would have had 8 late ones.
                self.assertGreater(run["latency_us"]["p90"], 1e6)

    def test_what_was_due_and_not_sent_counts(self):
        process = self.start("--workload", "put", "--rate", 100, "--duration", "4s", "--in-flight",
                             2)
        self.await_keys()
        self.server.process.send_signal(signal.SIGSTOP)
        time.sleep(5)
        self.server.process.send_signal(signal.SIGCONT)
        run, code, errors = self.finish(process)
        self.assertEqual(code, 0, errors)
        self.assertGreater(run["not_sent"], 0)
        self.assertEqual(run["calls"] + run["not_sent"], 400)

    # --- errors ---

    def test_errors_are_counted_by_code(self):
        # At a rate: a connection that sends invalid requests as fast as it can is ended.
        run = self.measure("--workload", "batch-write", "--keys", 5000, "--batch", 2000,
                           "--duration", "300ms", "--rate", 100, code=4)
        self.assertEqual(list(run["errors"]), ["INVALID_ARGUMENT (BATCH_TOO_LONG)"])
        self.assertGreater(run["error_count"], 0)
        self.assertEqual((run["calls"], run["operations"]), (0, 0))
        self.assertEqual(self.server.key_count(), 0)

    def test_a_server_that_ends_is_an_error_and_not_the_end(self):
        for workload in ("put", "session"):
            with self.subTest(workload=workload):
                server = self.server = self.daemon(self.folder(), engine="dram")
                process = self.start("--workload", workload, "--duration", "8s", "--in-flight", 4)
                self.await_keys()
                server.kill()
                run, code, errors = self.finish(process)
                self.assertEqual(code, 4, errors)
                self.assertGreater(run["calls"], 0)
                self.assertGreaterEqual(run["errors"]["UNAVAILABLE"], 1)
                self.assertGreaterEqual(run["seconds"], 8)

    def test_no_server(self):
        self.server.stop()
        self.assert_error(self.server.ctl("bench", "--workload", "get"), 4, "bench: UNAVAILABLE")

    def test_wrong_options(self):
        for words, message in (
                ((), "--workload is missing: one of get, put"),
                (("--workload", "gets"), "--workload: 'gets' is none of get, put, mixed"),
                (("--workload", "get", "--value-bytes", "7"),
                 "--value-bytes: '7' is not a size from 8B to 1MiB, such as 100 or 4KiB"),
                (("--workload", "get", "--value-bytes", "2MiB"), "'2MiB' is not a size from 8B"),
                (("--workload", "get", "--rate", "0"), "--rate: '0' is not a whole number from 1"),
                (("--workload", "get", "--duration", "10"), "'10' is not a duration"),
                (("--workload", "get", "--batch", "5"), "--batch is for batch-get"),
                (("--load", "--in-flight", "5"), "--in-flight needs a --workload"),
                (("--workload", "get", "--hex"), "--hex: bench does not take it"),
                (("--workload", "get", "--distribution", "normal"),
                 "--distribution: 'normal' is none of uniform, zipfian, latest")):
            with self.subTest(words=words):
                self.assert_error(self.server.ctl("bench", *words), 2, message)

    # --- Ctrl-C and the terminal ---

    def test_an_interrupted_run_prints_what_it_measured(self):
        for workload in ("put", "session"):
            with self.subTest(workload=workload):
                self.server.ctl("bench", "--clean")
                process = self.start("--workload", workload, "--duration", "1h")
                self.await_keys()
                process.send_signal(signal.SIGINT)
                run, code, errors = self.finish(process)
                self.assertEqual(code, 130, errors)
                self.assertTrue(run["interrupted"])
                self.assertGreater(run["calls"], 0)
                self.assertLess(run["seconds"], 3600)

    def test_an_interrupted_run_does_not_wait_for_a_server_that_stands_still(self):
        for rate in ((), ("--rate", 50)):
            with self.subTest(rate=rate):
                self.server.ctl("bench", "--clean")
                process = self.start("--workload", "put", "--duration", "1h", "--in-flight", 5,
                                     *rate, "--timeout", "1h")
                self.await_keys()
                self.server.process.send_signal(signal.SIGSTOP)
                time.sleep(1)
                process.send_signal(signal.SIGINT)
                try:
                    run, code, errors = self.finish(process)
                finally:
                    self.server.process.send_signal(signal.SIGCONT)
                self.assertEqual(code, 130, errors)
                self.assertEqual((run["not_answered"], run["error_count"]), (5, 0))

    def test_progress_is_for_terminals(self):
        self.load()
        words = ("bench", "--workload", "get", "--keys", KEYS, "--duration", "2500ms")
        self.assertEqual(self.server.ctl(*words).stderr, b"")
        ours, theirs = pty.openpty()
        process = daemon.subprocess.Popen(self.server.ctl_command(*words), stderr=theirs,
                                          stdout=daemon.subprocess.PIPE)
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:  # the terminal is gone with the process
            pass
        os.close(ours)
        table = process.communicate()[0]
        self.assertRegex(shown, rb"1 s  \d+ operations/s  \d+ in all  0 errors")
        self.assertRegex(table, rb"(?m)^get: 500 keys of 32 bytes, values of 100, uniform; "
                                rb"4 connections, 16 in flight; [\d.]+ s$")
        self.assertRegex(table, rb"(?m)^all +\d+( +[\d.]+ (us|ms|s)){5}$")
        self.assertIn(b"no errors\n", table)

    # --- the user's data ---

    def test_clean_leaves_no_key_of_its_own_and_all_others(self):
        for key in NEIGHBOURS:
            self.server.ask("put", key, "mine")
        before = self.server.dump()
        outcome = self.server.ctl("bench", "--load", "--workload", "ycsb-d", "--clean", "--keys",
                                  KEYS, "--duration", "300ms")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertRegex(outcome.stderr, rb"^loaded 500 keys\ndeleted \d+ keys\n$")
        self.assertGreaterEqual(int(outcome.stderr.split()[4]), KEYS)
        self.assertEqual(self.server.dump(), before)
        self.assertEqual(self.server.ctl("bench", "--clean").stderr, b"deleted 0 keys\n")

    def test_what_reads_asks_for_a_load(self):
        for workload in ("get", "scan", "ycsb-e", "batch-get"):
            with self.subTest(workload=workload):
                self.assert_error(self.server.ctl("bench", "--workload", workload), 2,
                                  "100000 keys of 32 bytes that are not there", "--load")
        self.load()
        self.assert_error(self.server.ctl("bench", "--workload", "get", "--keys", KEYS + 1), 2,
                          "--load")

    def test_consent_to_the_other_format_is_refused(self):
        mine = "fffffffe00000000"  # where the bench's keys would be in a pool of 8-byte keys
        self.server.ask("--hex", "put", mine, "00")
        for words in (("--workload", "put"), ("--load",), ("--clean",)):
            with self.subTest(words=words):
                self.assert_error(self.server.ctl("bench", "--fixed64", *words), 2,
                                  "leave out --fixed64")
        self.assertEqual(self.server.ask("--hex", "scan"), f"{mine}\t00\n".encode())

    def test_keys_of_8_bytes_need_consent(self):
        server = self.server = self.daemon(self.folder(), engine="dram", key_format="fixed64")
        mine = "fffffffdffffffff", "ffffffff00000000"
        for key in mine:
            server.ask("--hex", "put", key, "00" * 8)
        before = server.dump()
        for words in (("--workload", "put"), ("--load",), ("--clean",)):
            with self.subTest(words=words):
                self.assert_error(server.ctl("bench", *words), 2, "key format fixed64",
                                  "--fixed64", "fffffffe00000000")
        self.assertEqual(server.dump(), before)
        run = self.measure("--fixed64", "--load", "--workload", "ycsb-d", "--keys", KEYS,
                           "--duration", "300ms")
        self.assertEqual((run["not_found"], run["error_count"], run["key_bytes"]), (0, 0, 8))
        self.assertGreaterEqual(server.key_count(), KEYS + len(mine))
        self.assertEqual(server.ctl("bench", "--fixed64", "--clean").returncode, 0)
        self.assertEqual(server.dump(), before)

    # --- addresses ---

    def test_a_unix_socket(self):
        workdir = self.folder()
        path = workdir / "socket"
        self.server = self.enterContext(daemon.UnixDaemon(workdir, path, engine="dram"))
        run = self.measure("--load", "--workload", "mixed", "--keys", KEYS, "--duration", "300ms")
        self.assertEqual((run["server"], run["error_count"]), (f"unix:{path}", 0))

    @unittest.skipUnless(certificates.have_openssl(), "no openssl command to make certificates")
    def test_tls(self):
        workdir = self.folder()
        authority = certificates.Authority(workdir)
        pair = authority.issue("server")
        server = daemon.Daemon(workdir, engine="dram", tls_cert_file=pair.cert,
                               tls_key_file=pair.key)
        server.ctl_flags = ["--tls-ca", authority.cert]
        self.server = self.enterContext(server)
        for workload in ("mixed", "session"):
            run = self.measure("--load", "--workload", workload, "--keys", KEYS, "--duration",
                               "300ms")
            self.assertEqual(run["error_count"], 0)
            self.assertGreater(run["calls"], 0)
        server.ctl_flags = []
        self.assert_error(server.ctl("bench", "--workload", "put"), 4, "TLS")


if __name__ == "__main__":
    system_test.main()

#!/usr/bin/env python3
"""smoke_test.py ENGINE_BENCH: runs every engine of the build with few keys, in both key formats,
with every workload, and checks each resulting figure.

Persistent engines get pools in a memory file system, with PMEM_IS_PMEM_FORCE=1.
"""

import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ENGINE_BENCH = ""
KEYS = 20_000
OPS = 4_000
VOLATILE = {"dram", "null"}
PHASES = ["load", "insert", "update", "read", "read_absent", "read_chained", "scan", "mixed",
          "mixed_1_2", "insert:skewed", "read:skewed", "insert:burst", "insert:sequential",
          "read:sequential", "delete"]
WRITES = {"load", "insert", "update", "delete", "mixed", "mixed_1_2"}
# Lines are counted for the whole process: an engine's thread that frees records may flush one while
# another phase is measured.
STRAY = 0.01
FIGURES = ["threads", "keys", "ops", "ops_per_second", "lines_flushed_per_op", "fences_per_op",
           "media_writes_256b_per_op", "max_lines_per_op", "medium_bytes_per_key",
           "dram_bytes_per_key", "p50_ns", "p99_ns", "p999_ns", "p9999_ns"]
NAMES = ["engine", "key_format", "workload", "key_shape"]


def run(*arguments):
    environment = dict(os.environ, PMEM_IS_PMEM_FORCE="1")
    return subprocess.run([ENGINE_BENCH, *arguments], capture_output=True, text=True,
                          env=environment, timeout=250)


def known_engines():
    """As the error for an unknown one lists them."""
    message = run("--engine=no_such_engine").stderr
    return message.split("this build has: ")[1].strip().split(", ")


class EngineBench(unittest.TestCase):
    def setUp(self):
        memory = pathlib.Path("/dev/shm")
        folder = tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def measure(self, engine, *arguments):
        out = self.folder / "out.json"
        pool = [] if engine in VOLATILE else [f"--pool={self.folder}/pool"]
        result = run(f"--engine={engine}", f"--keys={KEYS}", f"--ops={OPS}", "--latency-ops=2000",
                     f"--json={out}", *pool, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        left = sorted(file.name for file in self.folder.iterdir())
        self.assertEqual(left, ["out.json"], "the pool was not removed")
        return result.stdout, [json.loads(line) for line in out.read_text().splitlines()]

    def check_row(self, row):
        for name in NAMES:
            self.assertIsInstance(row[name], str, row)
        for name in FIGURES:
            self.assertIsInstance(row[name], (int, float), row)
            self.assertGreaterEqual(row[name], 0, row)
        self.assertGreater(row["ops_per_second"], 100, row)
        self.assertLess(row["ops_per_second"], 1e10, row)
        self.assertLessEqual(row["p50_ns"], row["p99_ns"], row)
        self.assertLessEqual(row["p99_ns"], row["p999_ns"], row)
        self.assertLessEqual(row["p999_ns"], row["p9999_ns"], row)
        self.assertLess(row["p50_ns"], 1e8, row)

    def check_costs(self, row):
        """Of a persistent engine."""
        self.assertGreater(row["medium_bytes_per_key"], 8, row)
        self.assertLess(row["medium_bytes_per_key"], 2_000, row)
        if row["workload"] in WRITES:
            self.assertGreater(row["lines_flushed_per_op"], 0.1, row)
            self.assertGreater(row["fences_per_op"], 0.01, row)
            self.assertGreater(row["max_lines_per_op"], 0, row)
        else:
            self.assertLess(row["lines_flushed_per_op"], STRAY, row)
            self.assertEqual(row["max_lines_per_op"], 0, row)

    def check_baselines(self, rows):
        persist = [row for row in rows if row["engine"] == "persist"]
        self.assertEqual([row["workload"] for row in persist], ["persist"])
        for name in ("lines_flushed_per_op", "fences_per_op", "media_writes_256b_per_op",
                     "max_lines_per_op"):
            self.assertAlmostEqual(persist[0][name], 1, delta=STRAY, msg=persist[0])
        btrees = {name: [row for row in rows if row["engine"] == name]
                  for name in ("btree_map", "btree_map_huge_pages")}
        for btree in btrees.values():
            self.assertEqual([self.phase_of(row) for row in btree], self.phases())
        for row in itertools.chain(*btrees.values()):
            self.assertEqual(row["threads"], 1)
            self.assertLess(row["lines_flushed_per_op"], STRAY)
            self.assertGreater(row["dram_bytes_per_key"], 16)
            self.assertLess(row["dram_bytes_per_key"], 40)
            self.assertGreater(row["p99_ns"], 0)

    @staticmethod
    def phases():
        return [phase if ":" in phase else phase + ":uniform" for phase in PHASES]

    @staticmethod
    def phase_of(row):
        return f"{row['workload']}:{row['distribution']}"

    def check_engine(self, engine, rows):
        """Every phase with each thread count in both key formats."""
        mine = [row for row in rows if row["engine"] == engine]
        seen = sorted((self.phase_of(row), row["key_format"], row["threads"]) for row in mine)
        wanted = [(phase, key_format, threads)
                  for phase, key_format, threads in itertools.product(
                      self.phases(), ["fixed64", "bytes"], [1, 2])
                  if threads == 1 or not phase.startswith("load")]
        self.assertEqual(seen, sorted(wanted))
        for row in mine:
            load = row["workload"] == "load"
            self.assertEqual(row["keys"], KEYS)
            self.assertGreater(row["cpu_share"], 0, row)
            self.assertLessEqual(row["cpu_share"], 1, row)
            self.assertEqual(row["ops"], KEYS - 2_000 if load else OPS)
            if row["threads"] == 1:
                self.assertGreater(row["ratio_to_btree_map"], 0, row)
                self.assertGreater(row["ratio_to_btree_map_huge_pages"], 0, row)
            else:
                self.assertGreater(row["speedup_over_one_thread"], 0, row)
            if engine not in VOLATILE:
                self.check_costs(row)

    def test_every_engine_in_both_key_formats(self):
        for engine in known_engines():
            with self.subTest(engine=engine):
                stdout, rows = self.measure(engine, "--key-format=fixed64,bytes", "--threads=1,2",
                                            "--workload=" + ",".join(PHASES))
                for row in rows:
                    self.check_row(row)
                self.check_engine(engine, rows)
                self.check_baselines(rows)
                self.assertTrue(stdout.startswith("environment:"), stdout[:200])
                for word in ("processor", "compiler", "commit", "PMEM_IS_PMEM_FORCE", "options:",
                             "medium of", "p99.99 ns"):
                    self.assertIn(word, stdout)

    def test_key_shapes_and_value_sizes(self):
        for engine in known_engines():
            with self.subTest(engine=engine):
                _, rows = self.measure(engine, "--key-format=bytes", "--value-size=100",
                                       "--key-shape=random16,user,url", "--no-baselines",
                                       "--workload=insert,read,scan,delete")
                self.assertEqual(sorted({row["key_shape"] for row in rows}),
                                 ["random16", "url", "user"])
                self.assertEqual(len(rows), 12)
                for row in rows:
                    self.check_row(row)

    def test_groups_beside_lone_operations(self):
        for engine in known_engines():
            with self.subTest(engine=engine):
                stdout, rows = self.measure(
                    engine, "--key-format=fixed64,bytes", "--threads=1,2", "--no-baselines",
                    "--group=1,16,16a", "--workload=insert,update,read,read_absent,scan,delete")
                seen = {(row["workload"], row["key_format"], row["threads"], row.get("group", 1),
                         row.get("atomic", False)) for row in rows}
                self.assertEqual(len(seen), len(rows))
                self.assertEqual(len(seen), 2 * 2 * (3 + 2 + 2 + 2 + 1 + 3))
                for row in rows:
                    self.check_row(row)
                    self.assertEqual("ratio_to_lone" in row, "group" in row, row)
                    if row.get("group", 1) > 1 and row["workload"] == "insert" and \
                            engine not in VOLATILE:
                        self.assertLess(row["fences_per_op"], 0.9, row)
                self.assertIn("of lone", stdout)

    def test_window(self):
        for engine in sorted(set(known_engines()) - VOLATILE):
            with self.subTest(engine=engine):
                stdout, rows = self.measure(engine, "--key-format=fixed64,bytes", "--no-baselines",
                                            "--workload=window")
                self.assertEqual([(row["workload"], row["key_format"]) for row in rows],
                                 [("window", "fixed64"), ("window", "bytes")])
                for row in rows:
                    self.assertEqual((row["keys"], row["ops"]), (KEYS, 2 * OPS))
                    self.assertGreater(row["leaves"], 0)
                    self.assertGreater(row["first_key_leaves"], 0)
                    self.assertLessEqual(row["first_key_leaves"], 3)
                self.assertIn("window of", stdout)

    def test_full_pool(self):
        for engine in sorted(set(known_engines()) - VOLATILE):
            with self.subTest(engine=engine):
                stdout, rows = self.measure(engine, "--key-format=fixed64,bytes", "--no-baselines",
                                            "--workload=full", "--pool-size=16MiB")
                by_stage = {(row["key_format"], row["stage"]): row for row in rows}
                for key_format in ("fixed64", "bytes"):
                    refused = by_stage[key_format, "full: put"]
                    self.assertEqual(refused["ops"], OPS)
                    self.assertGreater(refused["refused"], OPS / 2)
                    self.assertEqual(by_stage[key_format, "with room: turn"]["refused"], 0)
                    self.assertEqual(by_stage[key_format, "full: read"]["ops"], OPS)
                    self.assertGreater(by_stage[key_format, "fill"]["live_keys"], KEYS)
                self.assertIn("full pool of", stdout)

    def test_recovery_after_kill(self):
        for engine in sorted(set(known_engines()) - VOLATILE):
            with self.subTest(engine=engine):
                stdout, rows = self.measure(engine, "--key-format=fixed64,bytes", "--no-baselines",
                                            "--workload=recover", "--recovery-threads=1,2")
                self.assertEqual([(row["workload"], row["key_format"], row["threads"])
                                  for row in rows],
                                 [("recover", "fixed64", 1), ("recover", "fixed64", 2),
                                  ("recover", "bytes", 1), ("recover", "bytes", 2)])
                for row in rows:
                    self.check_row(row)
                    self.assertEqual(row["keys"], KEYS)
                    self.assertGreater(row["recovery_milliseconds"], 0)
                    self.assertLessEqual(row["threads_used"], row["threads"])
                    self.assertGreater(row["open_milliseconds"], row["recovery_milliseconds"])
                    self.assertFalse(row["clean"])
                self.assertIn("recovery of", stdout)

    def test_load_in_bulk(self):
        _, rows = self.measure("lbtree", "--key-format=fixed64,bytes", "--no-baselines",
                               "--bulk-load-fill=70", "--workload=load,read,insert,recover")
        loads = [row for row in rows if row["workload"] == "bulk_load"]
        self.assertEqual([(row["engine"], row["key_format"], row["ops"]) for row in loads],
                         [("lbtree", "fixed64", KEYS), ("lbtree", "bytes", KEYS)])
        self.assertEqual([row["keys"] for row in rows if row["workload"] == "recover"], [KEYS] * 2)

    def test_a_bulk_load_fills_leaves_as_wanted(self):
        for fill, least, most in ((10, 100, 250), (70, 24, 32), (100, 17, 24)):
            with self.subTest(fill=fill):
                _, rows = self.measure("lbtree", "--no-baselines", f"--bulk-load-fill={fill}",
                                       "--repeat=2", "--workload=load,read")
                self.check_row(rows[0])
                self.assertEqual((rows[0]["workload"], rows[0]["ops"]), ("bulk_load", 2 * KEYS))
                self.assertGreater(rows[0]["medium_bytes_per_key"], least, rows[0])
                self.assertLess(rows[0]["medium_bytes_per_key"], most, rows[0])

    def test_repeats_are_put_together(self):
        _, rows = self.measure("dram", "--workload=read", "--repeat=3", "--no-baselines")
        self.assertEqual([(row["workload"], row["ops"]) for row in rows], [("read", 3 * OPS)])


class Errors(unittest.TestCase):
    def check(self, arguments, *words):
        result = run(*arguments)
        self.assertNotEqual(result.returncode, 0, arguments)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_they_say_what_was_wrong_and_what_would_be_right(self):
        self.check(["--engine=nosuch"], "unknown engine 'nosuch'", "dram")
        self.check(["--engine=dram", "--workload=reed"], "unknown workload 'reed'", "read_absent")
        self.check(["--engine=dram", "--key-shape=x"], "unknown key shape 'x'", "user")
        self.check(["--engine=dram", "--key-format=x"], "unknown key format 'x'", "fixed64")
        self.check(["--engine=dram", "--distribution=x"], "unknown distribution 'x'", "skewed")
        self.check(["--engine=dram", "--keys=many"], "--keys", "many")
        self.check(["--engine=dram", "--keys=10"], "--keys is 10", "1000")
        self.check(["--engine=dram", "--engine-option=foo=1"], "'foo'")
        self.check(["--engine=dram", "--engine-option=foo"], "'foo'", "K=V")
        self.check(["--engine=dram", "--workload=read,load"], "load comes first")
        self.check(["--engine=dram", "--workload=recover"], "persistent")
        self.check(["--engine=dram", "--workload=read:sequential"], "load:sequential")
        self.check(["--engine=dram", "--keys=1000", "--json=/nonexistent/out"], "/nonexistent/out")
        self.check(["--engine=dram", "--bulk-load-fill=70"], "dram has no bulk load", "lbtree")
        self.check(["--engine=lbtree", "--bulk-load-fill=9"], "10 to 100")
        self.check(["--engine=dram", "--group=16b"], "--group", "'16b'", "16a")
        self.check(["--nosuch"], "--nosuch")

    def test_a_pool_is_never_written_over(self):
        engines = sorted(set(known_engines()) - VOLATILE)
        if not engines:
            self.skipTest("this build has no persistent engine")
        self.check([f"--engine={engines[0]}"], "--pool is missing")
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"precious")
            file.flush()
            self.check([f"--engine={engines[0]}", f"--pool={file.name}", "--keys=1000"],
                       "exists already", file.name)
            self.assertEqual(pathlib.Path(file.name).read_bytes(), b"precious")


if __name__ == "__main__":
    ENGINE_BENCH = sys.argv.pop(1)
    unittest.main(verbosity=2)

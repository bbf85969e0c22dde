#!/usr/bin/env python3
"""scripts/torture: what it reads out of the tests' output, that it stops in time, and that a
failure is kept, named and leads to a failing exit code. Over stand-ins for the test programs."""

import importlib.machinery
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/torture"

EXPLORER = """\
[ RUN      ] Engines/EveryImageTest.HoldsWhatWasAcknowledged/atree_bytes_prefixes
atree_bytes, torn words: 500 images (100 of them nested, 3 lives) at 4 positions
atree: 1500 images in all, 300 of them nested, in 2 seconds of processor time: 750 images a second
btree: 20 images in all, 5 of them nested, in 2 seconds of processor time: 10 images a second
"""
SCHEDULES = """\
  pairs        300 schedules of   10 programs (2 with every schedule), 4.5 switches each, 9 images \
and 7 nested, 8 different
atree: 400 schedules of 20 programs in all (3 programs with every schedule), 70 images, 30 of them \
nested, 2 lived on, 60 different, in 3 seconds of processor time
btree: 8 schedules
"""
KILLS = """\
test_killed_under_load (__main__.KillLoopTest.test_killed_under_load) ... atree: 40 kill cycles, \
34 more kills in recovery (17 of them while it replayed), 7 in shutdown, 217120 acknowledged \
writes, 493 unknown, 126441 reads, 2 lost
"""
MACHINES = """\
test_nvdimm_fsdax (__main__.DaxTest.test_nvdimm_fsdax) ... atree: 3 machine kills on NVDIMM, fsdax \
(pmem-adr), bytes, 4218 acknowledged writes, 12 unknown, 990 reads, 1 lost
btree: 2 machine kills on CXL type 3, fsdax (cxl), bytes, 7 acknowledged writes, 1 unknown, 9 \
reads, 0 lost
"""


def load_script():
    loader = importlib.machinery.SourceFileLoader("torture", str(SCRIPT))
    sys.dont_write_bytecode = True
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("torture", loader))
    sys.modules["torture"] = module
    loader.exec_module(module)
    return module


torture = load_script()


class ReadingTest(unittest.TestCase):
    def lines(self, *runs):
        totals = torture.Totals()
        for test, text, failed in runs:
            totals.add(test, text, failed)
        return totals.lines()

    def test_one_line_for_each_engine(self):
        self.assertEqual(
            self.lines(("explorer", EXPLORER, False), ("schedules", SCHEDULES, False),
                       ("kills", KILLS, True), ("explorer", EXPLORER, False),
                       ("machines", MACHINES, True),
                       ("canaries",
                        "atree: 5 caught, 0 missed\nbtree: 3 caught, 1 missed\n", True)),
            ["atree: 3,070 images (630 nested), 400 schedules, 40 kill cycles (34 more kills in "
             "recovery), 3 machine kills, 3 lost, 0 leaked, 5 of 5 canaries caught",
             "btree: 40 images (10 nested), 8 schedules, 0 kill cycles (0 more kills in recovery), "
             "2 machine kills, 0 lost, 0 leaked, 3 of 4 canaries caught"])

    def test_one_test_for_each_engine(self):
        explorer = EXPLORER.splitlines()
        lines = self.lines(("explorer_atree", explorer[2], False),
                           ("explorer_btree", explorer[3], False),
                           ("canaries", "atree, no total\n", False),
                           ("canaries_atree", "atree: 5 caught, 0 missed\n", False),
                           ("canaries_btree", "btree: 2 caught, 2 missed\n", True))
        self.assertRegex(lines[0], "^atree: 1,500 images .* 5 of 5 canaries")
        self.assertRegex(lines[1], "^btree: 20 images .* 2 of 4 canaries")

    def test_canaries_count_once_and_by_their_worst_round(self):
        good, bad = "7 caught, 0 missed", "6 caught, 1 missed"
        lines = self.lines(("explorer", "atree: 1 images in all, 0 of them nested", False),
                           ("one", good, False), ("one", bad, True), ("one", good, False),
                           ("two", "3 caught, 0 missed", False))
        self.assertIn("9 of 10 canaries caught", lines[0])

    def test_what_a_failure_tells(self):
        lines = self.lines(
            ("explorer", EXPLORER.splitlines()[2] + "\nkey 'a' is lost: it was acknowledged\n"
             "Check finds 1 problems, first: 12 leaves are taken, 11 reached, 0 spare\n"
             "flush   line prefixes  slots not flushed   caught   12 images  key b is lost\n",
             True))
        self.assertRegex(lines[0], "1 lost, 1 leaked")
        self.assertRegex(self.lines(("other", "key 'a' is lost\n", True))[0],
                         "unknown engine: .* 1 lost")


class RunningTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.release = self.folder / "release"
        self.release.mkdir()

    def add(self, name, body, labels="crash", timeout=100, environment=""):
        program = self.release / name
        program.write_text("#!/bin/bash\n" + body)
        program.chmod(0o755)
        with open(self.release / "CTestTestfile.cmake", "a", encoding="utf-8") as file:
            file.write(f'add_test({name} "{program}")\nset_tests_properties({name} PROPERTIES '
                       f'LABELS "{labels}" TIMEOUT {timeout} {environment})\n')

    def run_torture(self, minutes, **environment):
        begun = time.monotonic()
        outcome = subprocess.run(
            [str(SCRIPT)], capture_output=True, text=True, timeout=100, check=False,
            env=os.environ | {"LODGEKV_BUILDS": str(self.folder), "TORTURE_MINUTES": str(minutes),
                              "TORTURE_SEED": "7", "JOBS": "2"} | environment)
        return outcome.returncode, outcome.stdout + outcome.stderr, time.monotonic() - begun

    def test_rounds_with_seeds_until_the_time_is_over(self):
        self.add("crash_explorer_test", 'echo "atree: $LODGEKV_TEST_SEED images in all, 0 of them '
                                        'nested"; sleep 0.3')
        self.add("other", "true", "unit")
        self.add("scaled", "echo never >> scaled.log; exit 1", "torture",
                 environment="ENVIRONMENT LODGEKV_TEST_SCALE=9")
        code, output, seconds = self.run_torture(0.03)
        self.assertEqual(code, 0, output)
        self.assertLess(seconds, 10)
        self.assertIn("round 1, seed 8: crash_explorer_test: ok", output)
        self.assertNotIn("other", output)
        self.assertNotIn("scaled", output)
        runs = len(re.findall(": ok", output))
        self.assertGreater(runs, 2)
        images = sum(range(7, 7 + runs))
        self.assertTrue(output.splitlines()[-1].startswith(f"atree: {images:,} images"), output)

    def test_what_the_summary_counts_comes_first_engine_by_engine(self):
        for name in ("a_test", "kill_loop_test_atree", "crash_explorer_test_atree",
                     "crash_explorer_test_btree", "crash_explorer_testing"):
            self.add(name, "true", "system" if name.startswith("kill") else "crash")
        _, output, _ = self.run_torture(0.01, JOBS="1")
        names = re.findall(r"round 0, seed 7: (\w+): ok", output)
        self.assertEqual(names, ["crash_explorer_test_atree", "crash_explorer_test_btree",
                                 "kill_loop_test_atree", "a_test", "crash_explorer_testing"])

    def test_a_failure_is_kept_and_named(self):
        self.add("crash_explorer_test", 'echo "key is lost"; test $LODGEKV_TEST_SEED = 7')
        code, output, _ = self.run_torture(0.01)
        self.assertEqual(code, 1, output)
        log = re.search(r"FAILED: crash_explorer_test, seed 8: (\S+)", output)
        self.assertIsNotNone(log, output)
        self.assertEqual(pathlib.Path(log[1]).read_text(), "key is lost\n")
        self.assertRegex(output, r"LODGEKV_TEST_SEED=8 .*crash_explorer_test")
        self.assertFalse(list(self.folder.glob("torture/*/round0.*")), "a log of success is kept")

    def test_what_hangs_is_ended_with_its_children(self):
        self.add("crash_hang", f"sleep 77 & echo $! > {self.folder}/child; wait", timeout=1)
        code, output, seconds = self.run_torture(0.005)
        self.assertEqual(code, 1, output)
        self.assertIn("did not end within 1 s", output)
        self.assertLess(seconds, 30)
        child = (self.folder / "child").read_text().strip()
        # Ended, though perhaps not yet reaped.
        state = pathlib.Path(f"/proc/{child}/stat")
        self.assertRegex(state.read_text() if state.exists() else "gone", r"^gone|\) Z ")

    def test_wrong_minutes(self):
        code, output, _ = self.run_torture("soon")
        self.assertEqual(code, 1)
        self.assertIn("TORTURE_MINUTES is 'soon', it must be a number of minutes", output)


if __name__ == "__main__":
    unittest.main()

"""A disk that fails: no write is acknowledged any more, the daemon ends, and nothing that was
acknowledged is lost.

The calls are made to fail by a library before libc (failing_sync.cc), in the daemon as it is
shipped.
"""

import os
import pathlib
import re
import time

import daemon
import records
import system_test

FAILING_SYNC = pathlib.Path(os.environ["LODGEKV_FAILING_SYNC"])
LOAD = 20_000


class FailedSyncTest(system_test.SystemTest):
    def setUp(self):
        self.workdir = self.folder(daemon.disk_folder())
        self.broken = self.workdir / "disk-is-broken"

    def make_daemon(self, engine, calls):
        """With the smallest journal, so that checkpoints are made under little load."""
        server = daemon.Daemon(self.workdir, engine=engine, pool=self.workdir / engine,
                               pool_size=64 * daemon.MIB, journal_size=daemon.MIB,
                               forced_pmem=False)
        # The order of libraries matters to a sanitizer's own alone.
        server.environment |= {"LD_PRELOAD": str(FAILING_SYNC), "FAILING_SYNC_CALLS": calls,
                               "FAILING_SYNC_WHILE": str(self.broken),
                               "ASAN_OPTIONS": "verify_asan_link_order=0"}
        return server

    def start(self, engine, calls):
        server = self.enterContext(self.make_daemon(engine, calls))
        if server.ask_json("status")["medium_class"] != "file":
            self.skipTest(f"{self.workdir} is not on a disk: nothing is synced there")
        return server

    def assert_ended_of_its_medium(self, server, call):
        """`call` as the log names it, up to the pool's path."""
        self.assertEqual(server.process.wait(daemon.STOP_SECONDS), 1, server.tail())
        self.assertIn("the medium failed", server.tail())
        pool = re.escape(str(server.flags["pool"]))
        self.assertRegex(server.tail(), f"{call} {pool}(.journal)? failed: Input/output error")
        self.assertNotIn("pool closed cleanly", server.tail())
        self.broken.unlink()

    # --- the journal ---

    def test_a_write_of_the_journal_fails(self):
        self.for_each_engine(self.fail_a_write)

    def fail_a_write(self, engine):
        server = self.start(engine, "pwrite")
        server.ask("put", "earlier", "acknowledged")
        self.broken.touch()
        outcome = server.ctl("put", "later", "never acknowledged")
        self.assertNotEqual(outcome.returncode, 0, outcome.stdout)
        self.assert_ended_of_its_medium(server, "a write to journal")
        server.start()
        self.assertEqual(server.ask("get", "earlier").strip(), b"acknowledged")
        self.assertIn("clean=no", server.tail())
        self.assertIn("replayed the journal", server.tail())
        server.kill()

    def test_a_write_of_the_journal_fails_under_load(self):
        self.for_each_engine(lambda engine: self.fail_under_load(engine, "pwrite",
                                                                "a write to journal"))

    # --- the pool's own pages ---

    def test_a_checkpoint_fails(self):
        self.for_each_engine(lambda engine: self.fail_under_load(engine, "msync", "msync of .* of"))

    def fail_under_load(self, engine, calls, what):
        """What lodgectl has seen acknowledged is there after the next start."""
        server = self.start(engine, calls)
        lines = [b"key/%06d\tvalue %d" % (number, number) for number in range(LOAD)]
        source, acks = self.workdir / "input.tsv", self.workdir / "acks"
        records.write_lines(source, lines)
        acks.unlink(missing_ok=True)
        load = server.start_ctl("load", source, "--ack-log", acks, "--batch", 20)
        while len(records.read_lines(acks)) < LOAD // 20 and load.poll() is None:
            time.sleep(0.005)
        self.broken.touch()
        load.communicate()
        self.assert_ended_of_its_medium(server, what)
        acknowledged = set(records.read_lines(acks))
        self.assertTrue(acknowledged)
        server.start()
        # The pool's own pages are in doubt only if one of its syncs has failed.
        flushed = "flushed the whole pool" in server.tail()
        self.assertEqual(flushed, calls == "msync", server.tail())
        there = dict(line.split(b"\t") for line in server.dump())
        wrong = [key for key in acknowledged if there.get(key) != b"value %d" % int(key[4:])]
        self.assertEqual(wrong[:5], [], f"{len(wrong)} of {len(acknowledged)} acknowledged")
        self.assertTrue(server.ask_json("check")["sound"])
        server.kill()

    def test_the_close_fails(self):
        self.for_each_engine(self.fail_the_close)

    def fail_the_close(self, engine):
        server = self.start(engine, "fdatasync")
        server.ask("put", "earlier", "acknowledged")
        self.broken.touch()
        server.terminate()
        self.assert_ended_of_its_medium(server, "fdatasync of")
        server.start()
        self.assertEqual(server.ask("get", "earlier").strip(), b"acknowledged")
        self.assertIn("clean=no", server.tail())
        self.assertIn("flushed the whole pool", server.tail())
        server.kill()


if __name__ == "__main__":
    system_test.main()

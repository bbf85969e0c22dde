"""A pool whose files are lost while in use: deleted, moved, replaced, truncated, its journal too.

The daemon notices within a second or so, acknowledges nothing more, says NOT_SERVING, does not
call its end clean, and what is left is never taken for a new pool.
"""

import os
import re
import shutil
import time

import daemon
import system_test

EXIT_POOL_GONE = 66
POOL_SIZE = 16 * daemon.MIB
NOTICED_SECONDS = 2  # an interval is 0.2 s; the rest is for a machine that is busy


class PoolGoneTest(system_test.SystemTest):
    def serve(self, workdir, **flags):
        server = self.daemon(workdir, engine=self.engine, pool=workdir / "pool",
                             pool_size=POOL_SIZE, **flags)
        server.ask("put", "early", "acknowledged")
        return server

    def for_each(self, case):
        def run(engine):
            self.engine = engine
            case()
        self.for_each_engine(run)

    def assert_noticed(self, server, what):
        """Every call is refused, by its reason, and health and status say so."""
        deadline = time.monotonic() + NOTICED_SECONDS
        while "pool is gone" not in server.tail() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertRegex(server.tail(), rf"the pool is gone.*{what}")
        for words in (("put", "late", "value"), ("get", "early"), ("delete", "early"),
                      ("scan",), ("check",), ("stats",)):
            self.assert_error(server.ctl(*words), 4, "UNAVAILABLE",
                              "deleted, replaced or cut short")
        self.assertEqual(server.ask_json("status")["state"], "SERVER_STATE_POOL_GONE")

    def assert_ends(self, server):
        self.assertEqual(server.stop(), EXIT_POOL_GONE, server.tail())
        self.assertNotIn("pool closed cleanly", server.tail())

    # --- deleted ---

    def test_deleted_and_brought_back(self):
        self.for_each(self.delete)

    def delete(self):
        workdir = self.folder()
        server = self.serve(workdir)
        os.unlink(workdir / "pool")
        self.assert_noticed(server, f"{workdir}/pool is gone: it was deleted or moved")
        kept = re.search(r"/proc/\d+/fd/\d+", server.tail())[0]
        shutil.copyfile(kept, workdir / "rescued")
        self.assert_ends(server)
        os.rename(workdir / "rescued", workdir / "pool")
        server.start()
        self.assertEqual(server.ask("get", "--raw", "early"), b"acknowledged")
        self.assertNotEqual(server.ctl("get", "late").returncode, 0)
        self.assertEqual(server.stop(), 0, server.tail())

    def test_deleted_just_before_the_end(self):
        """No check ran between the two: the shutdown itself checks."""
        self.for_each(self.delete_and_end)

    def delete_and_end(self):
        workdir = self.folder()
        server = self.serve(workdir)
        os.unlink(workdir / "pool")
        self.assert_ends(server)

    # --- moved, replaced, covered ---

    def test_moved_away_and_back(self):
        self.for_each(self.move)

    def move(self):
        workdir = self.folder()
        server = self.serve(workdir)
        os.rename(workdir / "pool", workdir / "elsewhere")
        self.assert_noticed(server, f"{workdir}/pool is gone")
        self.assert_ends(server)
        os.rename(workdir / "elsewhere", workdir / "pool")
        server.start()
        self.assertEqual(server.ask("get", "--raw", "early"), b"acknowledged")
        self.assertIn("clean=yes", server.tail())

    def test_replaced(self):
        self.for_each(self.replace)

    def replace(self):
        workdir = self.folder()
        server = self.serve(workdir)
        shutil.copyfile(workdir / "pool", workdir / "copy")
        os.rename(workdir / "copy", workdir / "pool")
        self.assert_noticed(server, f"{workdir}/pool is not the file that was opened")
        self.assert_ends(server)

    # --- cut short ---

    def test_emptied(self):
        self.for_each(self.empty)

    def empty(self):
        """No requests, and no page is accessed except by the daemon itself."""
        workdir = self.folder()
        server = self.serve(workdir)
        os.truncate(workdir / "pool", 0)
        self.assert_noticed(server, f"{workdir}/pool was cut short: it has 0 bytes, and had")
        self.assert_ends(server)

    # --- the journal ---

    def serve_from_disk(self):
        workdir = self.folder(daemon.disk_folder())
        server = self.serve(workdir, forced_pmem=False)
        if server.ask_json("status")["medium_class"] != "file":
            self.skipTest(f"{workdir} is not on a disk: a pool there has no journal")
        return workdir, server

    def test_journal_deleted(self):
        self.for_each(self.delete_journal)

    def delete_journal(self):
        """The pool is closed cleanly, and needs no journal then."""
        workdir, server = self.serve_from_disk()
        os.unlink(workdir / "pool.journal")
        self.assert_noticed(server, f"{workdir}/pool.journal is gone")
        self.assert_ends(server)
        server.start()
        self.assertEqual(server.ask("get", "--raw", "early"), b"acknowledged")

    def test_pool_on_a_disk_deleted(self):
        self.for_each(self.delete_with_journal)

    def delete_with_journal(self):
        workdir, server = self.serve_from_disk()
        os.unlink(workdir / "pool")
        self.assert_noticed(server, f"{workdir}/pool is gone")
        self.assert_ends(server)

    # --- under load ---

    def test_nothing_is_acknowledged_late(self):
        self.for_each(self.delete_under_load)

    def delete_under_load(self):
        workdir = self.folder()
        server = self.serve(workdir)
        source, acks = workdir / "input.tsv", workdir / "acks"
        source.write_bytes(b"".join(b"key%04d\tvalue %d\n" % (n % 1000, n)
                                    for n in range(3_000_000)))
        acks.touch()
        load = server.start_ctl("load", source, "--ack-log", acks, "--batch", 20)
        while acks.stat().st_size == 0 and load.poll() is None:
            time.sleep(0.005)
        os.unlink(workdir / "pool")
        _, said = load.communicate(timeout=60)
        self.assertIn(b"deleted, replaced or cut short", said)
        self.assert_noticed(server, "is gone")
        acknowledged = acks.stat().st_size
        self.assert_ends(server)
        self.assertEqual(acks.stat().st_size, acknowledged)


if __name__ == "__main__":
    system_test.main()

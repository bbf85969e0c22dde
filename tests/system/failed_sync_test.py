"""A disk that fails a sync: no write is acknowledged any more, and the daemon ends.

The sync is made to fail by a library before libc (failing_sync.cc), in the daemon as it is shipped.
"""

import os
import pathlib

import daemon
import system_test

FAILING_SYNC = pathlib.Path(os.environ["LODGEKV_FAILING_SYNC"])


class FailedSyncTest(system_test.SystemTest):
    def setUp(self):
        self.workdir = self.folder(daemon.disk_folder())
        self.broken = self.workdir / "disk-is-broken"

    def make_daemon(self, engine):
        server = daemon.Daemon(self.workdir, engine=engine, pool=self.workdir / engine,
                               pool_size=64 * daemon.MIB, forced_pmem=False)
        # The order of libraries matters to a sanitizer's own alone.
        server.environment |= {"LD_PRELOAD": str(FAILING_SYNC),
                               "FAILING_SYNC_WHILE": str(self.broken),
                               "ASAN_OPTIONS": "verify_asan_link_order=0"}
        return server

    def test_nothing_is_acknowledged_and_the_daemon_ends(self):
        self.for_each_engine(self.fail_a_sync)

    def fail_a_sync(self, engine):
        with self.make_daemon(engine) as server:
            if server.ask_json("status")["medium_class"] != "file":
                self.skipTest(f"{self.workdir} is not on a disk: nothing is synced there")
            server.ask("put", "earlier", "acknowledged")
            self.broken.touch()
            outcome = server.ctl("put", "later", "never acknowledged")
            self.assertNotEqual(outcome.returncode, 0, outcome.stdout)
            self.assertEqual(server.process.wait(daemon.STOP_SECONDS), 1, server.tail())
            self.assertIn("the medium failed", server.tail())
            self.assertIn("Input/output error", server.tail())
            self.assertNotIn("closed clean", server.tail())
        self.broken.unlink()
        with self.make_daemon(engine) as server:
            self.assertEqual(server.ask("get", "earlier").strip(), b"acknowledged")
            self.assertIn("clean=no", server.tail())


if __name__ == "__main__":
    system_test.main()

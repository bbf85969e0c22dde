"""A pool file is truncated under the running daemon: it reports that and ends by exit code 74."""

import os

import daemon
import system_test

EXIT_BAD_PAGE = 74
POOL_SIZE = 16 * daemon.MIB


class BadPageTest(system_test.SystemTest):
    def test_the_daemon_ends_and_does_not_come_back(self):
        self.for_each_engine(self.cut_the_pool_short)

    @staticmethod
    def much_to_load(workdir):
        """The same few keys over and over, so that the pool does not fill."""
        path = workdir / "much.tsv"
        path.write_bytes(b"busy\tbusy\n" + b"".join(b"key%d\tother\n" % (n % 1000)
                                                     for n in range(1_000_000)))
        return path

    def cut_the_pool_short(self, engine):
        workdir = self.folder()
        pool = workdir / "pool"
        server = self.daemon(workdir, engine=engine, pool=pool, pool_size=POOL_SIZE)
        server.ask("load", "-", input=b"".join(b"key%d\tvalue\n" % n for n in range(10_000)))
        bystander = server.start_ctl("load", "-", stdin=daemon.subprocess.PIPE)
        # A working thread hits the page before the file's length is checked.
        worker = server.start_ctl("load", self.much_to_load(workdir))
        while b"busy" not in server.ctl("get", "busy", "--raw").stdout:
            self.assertIsNone(worker.poll())
        os.truncate(pool, 4096)
        _, said = worker.communicate(timeout=daemon.STOP_SECONDS)
        self.assertIn(b"UNAVAILABLE", said)
        self.assertEqual(server.process.wait(daemon.STOP_SECONDS), EXIT_BAD_PAGE, server.tail())
        _, said = bystander.communicate(b"later\tvalue\n", daemon.STOP_SECONDS)
        self.assertIn(b"UNAVAILABLE", said)
        self.assertRegex(server.tail(), rf"lodgekv pool: {pool}: the page at offset \d+ cannot be "
                                        "read or written: .* exit code 74 .*docs/crash_model.md\n")
        self.assertEqual(list(workdir.glob("core*")), [])
        for _ in range(2):
            server.spawn()
            self.assertEqual(server.process.wait(daemon.STOP_SECONDS), 1, server.tail())
            self.assertRegex(server.tail(), f"pool {pool} .*truncated")


if __name__ == "__main__":
    system_test.main()

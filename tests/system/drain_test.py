"""SIGTERM under load: the daemon ends with 0 and a clean pool, with all that it acknowledged."""

import time

import daemon
import records
import system_test

KEYS = [b"drain/%07d" % number for number in range(400_000)]


class DrainTest(system_test.SystemTest):
    def test_sigterm_under_load(self):
        self.for_each_engine(self.drain)

    def drain(self, engine):
        workdir = self.folder()
        server = self.daemon(workdir, engine=engine, pool=workdir / "pool",
                             pool_size=512 * daemon.MIB)
        source = workdir / "input.tsv"
        records.write_lines(source, [records.line_of(key, records.value_of(key))
                                     for key in KEYS])
        kept = set()
        for number, batch in enumerate((1, 256)):
            kept |= self.drain_once(server, workdir, source, number, batch)
            server.start()
            self.assertTrue(server.ask_json("status")["recovery"]["clean"], "the clean mark")
            self.check(server, kept)
        self.assertEqual(server.stop(), 0, server.tail())

    def drain_once(self, server, workdir, source, number, batch):
        acks = workdir / f"acks{number}"
        load = server.start_ctl("load", source, "--ack-log", acks, "--batch", batch,
                                "--concurrency", 16)
        while records.size_of(acks) < 20_000 * (len(KEYS[0]) + 1) and load.poll() is None:
            time.sleep(0.005)
        self.assertEqual(server.stop(), 0, server.tail())
        message = load.communicate()[1].decode()
        self.assertEqual(load.returncode, 4, message)
        # What reaches the server while it closes its port is cancelled by gRPC, not refused by us.
        self.assertRegex(message, "UNAVAILABLE|CANCELLED")
        return set(records.read_lines(acks))

    def test_sigterm_during_checks(self):
        """The operator's calls run on threads of their own, which answer on the daemon's queues."""
        workdir = self.folder()
        server = self.daemon(workdir, pool=workdir / "pool", pool_size=512 * daemon.MIB)
        source = workdir / "input.tsv"
        records.write_lines(source, [records.line_of(key, records.value_of(key))
                                     for key in KEYS])
        load = server.start_ctl("load", source, "--batch", 256, "--concurrency", 16)
        self.assertEqual(load.wait(), 0)
        for delay in (0.02, 0.05, 0.1, 0.15):
            calls = [server.start_ctl("check"), server.start_ctl("check"),
                     server.start_ctl("stats")]
            time.sleep(delay)
            self.assertEqual(server.stop(), 0, server.tail())
            for call in calls:
                call.communicate()
            server.start()
            self.assertTrue(server.ask_json("status")["recovery"]["clean"], "the clean mark")
        self.assertEqual(server.stop(), 0, server.tail())

    def check(self, server, kept):
        lines = server.dump()
        keys = [line.split(b"\t")[0] for line in lines]
        self.assertEqual(len(kept - set(keys)), 0, "acknowledged keys are lost")
        self.assertEqual(len(set(keys) - set(KEYS)), 0, "keys that were never written")
        self.assert_same_lines(lines, [records.line_of(key, records.value_of(key))
                                       for key in sorted(keys)], "dump")
        check = server.ask_json("check")
        self.assertTrue(check["sound"], check["problems"])


if __name__ == "__main__":
    system_test.main()

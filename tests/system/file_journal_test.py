"""A pool on an ordinary file and its journal: two files that belong together.

The daemon is killed under load and keeps what it acknowledged; a journal that is missing,
another's, of another time or damaged is refused with exit code 1 and a message that says what to
do.
"""

import shutil
import signal
import time

import daemon
import records
import system_test

LOAD = 20_000
KILLS = 3


class FileJournalTest(system_test.SystemTest):
    def setUp(self):
        self.workdir = self.folder(daemon.disk_folder())
        self.engine = daemon.persistent_engines()[0]

    def make(self, name="pool", **flags):
        """A daemon with a folder of its own. The smallest journal: it is soon full."""
        folder = self.workdir / name
        folder.mkdir()
        flags = {"engine": self.engine, "pool": folder / "pool", "pool_size": 64 * daemon.MIB,
                 "journal_size": daemon.MIB} | flags
        return daemon.Daemon(folder, forced_pmem=False, **flags)

    def serve(self, name="pool", **flags):
        server = self.enterContext(self.make(name, **flags))
        if server.ask_json("status")["medium_class"] != "file":
            self.skipTest(f"{self.workdir} is not on a disk: a pool there has no journal")
        return server

    def killed(self, name="pool", **flags):
        """One that was killed with a key acknowledged."""
        server = self.serve(name, **flags)
        server.ask("put", "key", name)
        server.kill()
        return server

    @staticmethod
    def journal(server):
        return server.flags.get("journal_path", server.workdir / "pool.journal")

    def assert_keeps(self, server, value):
        server.start()
        self.assertEqual(server.ask("get", "key").strip(), value.encode())

    def refuse(self, server, *parts):
        """Does not start, says why, and leaves the journal as it is."""
        journal = self.journal(server)
        before = journal.read_bytes() if journal.is_file() else None
        server.log.unlink(missing_ok=True)
        server.spawn()
        self.assertEqual(server.process.wait(daemon.START_SECONDS), 1, server.tail())
        errors = [line for line in server.tail().splitlines() if " error " in line]
        self.assertEqual(len(errors), 1, server.tail())
        for part in parts:
            self.assertIn(str(part), errors[0])
        self.assertTrue(before == (journal.read_bytes() if journal.is_file() else None))

    # --- crashes ---

    def test_killed_under_load(self):
        self.for_each_engine(self.kill_under_load)

    def kill_under_load(self, engine):
        server = self.serve(engine, engine=engine)
        acks = server.workdir / "acks"
        source = server.workdir / "input.tsv"
        expected = {}
        for turn in range(KILLS):
            keys = [b"key/%06d" % (number * 7919 % LOAD) for number in range(LOAD)]
            records.write_lines(source, [key + b"\t%d" % turn for key in keys])
            load = server.start_ctl("load", source, "--ack-log", acks, "--batch", 1 + 20 * turn)
            while len(records.read_lines(acks)) < 1000 and load.poll() is None:
                time.sleep(0.005)
            server.kill()
            load.communicate()
            for key in records.read_lines(acks):
                expected[key] = turn
            acks.unlink()
            server.start()
            self.assert_replayed(server)
            there = dict(line.split(b"\t") for line in server.dump())
            # What was under way may be newer.
            lost = [key for key, least in expected.items() if int(there.get(key, -1)) < least]
            self.assertEqual(lost[:5], [], f"{len(lost)} of {len(expected)} acknowledged")
            self.assertTrue(server.ask_json("check")["sound"])
        self.assertEqual(server.stop(), 0, server.tail())
        server.start()
        self.assertEqual(server.ask_json("status")["journal"]["lines_replayed"], "0")
        server.kill()

    def assert_replayed(self, server):
        status = server.ask_json("status")
        self.assertFalse(status["recovery"]["clean"])
        self.assertEqual(status["journal"]["path"], str(self.journal(server)))
        self.assertGreater(int(status["journal"]["groups_replayed"]), 0)
        self.assertGreater(int(status["journal"]["lines_replayed"]), 0)
        self.assertIn("replayed the journal", server.tail())
        self.assertIn(f"journal path={self.journal(server)} size=1MiB", server.tail())

    # --- where it lies ---

    def test_a_journal_that_is_missing(self):
        server = self.killed()
        away = self.journal(server).rename(self.workdir / "away")
        self.refuse(server, server.flags["pool"], "needs its journal, which is not at",
                    self.journal(server), "journal_path")
        away.rename(self.journal(server))
        self.assert_keeps(server, "pool")

    def test_a_pool_that_was_closed_in_order_needs_no_journal(self):
        server = self.serve()
        server.ask("put", "key", "kept")
        self.assertEqual(server.stop(), 0, server.tail())
        self.journal(server).unlink()
        self.assert_keeps(server, "kept")
        self.assertTrue(self.journal(server).is_file())

    def test_a_journal_in_another_folder(self):
        other = self.workdir / "other"
        other.mkdir()
        server = self.killed(journal_path=other / "journal")
        self.assertFalse((server.workdir / "pool.journal").exists())
        there = server.flags.pop("journal_path")
        self.refuse(server, "is not at", server.workdir / "pool.journal")
        server.flags["journal_path"] = there
        self.assert_keeps(server, "pool")
        self.assert_replayed(server)

    def test_another_size_from_start_to_start(self):
        server = self.killed()
        for size in (4 * daemon.MIB, daemon.MIB, 0):
            server.flags["journal_size"] = size
            self.assert_keeps(server, "pool")
            expected = size or 64 * daemon.MIB // 8
            self.assertEqual(server.ask_json("status")["journal"]["size_bytes"], str(expected))
            server.kill()

    # --- whose it is ---

    def test_the_journal_of_another_pool(self):
        first, second = self.killed("first"), self.killed("second")
        swap = self.workdir / "swap"
        for move, target in ((self.journal(first), swap),
                             (self.journal(second), self.journal(first)),
                             (swap, self.journal(second))):
            move.rename(target)
        for server in (first, second):
            self.refuse(server, "it belongs to pool", "not to this one", "journal_path")
        for move, target in ((self.journal(first), swap),
                             (self.journal(second), self.journal(first)),
                             (swap, self.journal(second))):
            move.rename(target)
        self.assert_keeps(first, "first")
        self.assert_keeps(second, "second")

    def test_a_journal_that_another_pool_may_need(self):
        needed = self.journal(self.killed("first"))
        server = self.serve("second")
        self.assertEqual(server.stop(), 0, server.tail())
        server.flags["journal_path"] = needed
        self.refuse(server, "it belongs to pool", "was not closed cleanly and may need it")

    def test_a_journal_in_use(self):
        first = self.serve("first")
        second = self.make("second", journal_path=self.journal(first))
        self.refuse_without_reading(second, "in use by another process")
        self.assertFalse(second.flags["pool"].exists())
        self.assertTrue(first.is_serving())

    def refuse_without_reading(self, server, *parts):
        server.spawn()
        self.assertEqual(server.process.wait(daemon.START_SECONDS), 1, server.tail())
        for part in parts:
            self.assertIn(part, server.tail())

    def test_a_journal_of_another_time(self):
        server = self.killed()
        older = shutil.copy(self.journal(server), self.workdir / "older")
        self.assert_keeps(server, "pool")
        server.kill()
        newer = self.journal(server).rename(self.workdir / "newer")
        shutil.copy(older, self.journal(server))
        self.refuse(server, "it belongs to this pool, but to another run of it", "backup")
        newer.rename(self.journal(server))
        self.assert_keeps(server, "pool")

    def test_a_journal_of_another_moment_of_the_run(self):
        server = self.serve()
        moments = []
        for value in (b"old", b"new"):
            source = server.workdir / "input.tsv"
            records.write_lines(source, [b"key/%06d\t%s" % (i, value) for i in range(LOAD)])
            server.ask("load", source)
            moments.append(self.copy_moment(server, value.decode()))
        server.kill()
        old, new = moments
        for pool, journal, message in ((old, new, "but to a later moment"),
                                       (new, old, "but to an earlier moment")):
            self.put_back(server, pool, journal)
            self.refuse(server, "it belongs to this run of the pool", message,
                        "restore both as they were at one moment")
            shutil.copy(pool / "journal", self.journal(server))
            server.start()
            values = {line.split(b"\t")[1] for line in server.dump()}
            self.assertEqual(values, {pool.name.encode()})
            server.kill()

    def copy_moment(self, server, name):
        """Pool and journal as they are now, in a folder."""
        folder = self.workdir / name
        folder.mkdir()
        server.process.send_signal(signal.SIGSTOP)
        shutil.copy(server.flags["pool"], folder / "pool")
        shutil.copy(self.journal(server), folder / "journal")
        server.process.send_signal(signal.SIGCONT)
        return folder

    def put_back(self, server, pool, journal):
        shutil.copy(pool / "pool", server.flags["pool"])
        shutil.copy(journal / "journal", self.journal(server))

    # --- what it is ---

    def test_something_else_in_its_place(self):
        server = self.make()
        self.journal(server).write_bytes(b"a text file\n" * 1000)
        self.refuse(server, self.journal(server), "it is in the way", "nothing is written over it")
        self.assertFalse(server.flags["pool"].exists())

    def test_a_damaged_journal(self):
        server = self.killed()
        sound = self.journal(server).read_bytes()
        for content, message in ((b"\1" + sound[1:], "does not begin with the mark of a journal"),
                                 (sound[:40] + b"\1" + sound[41:], "its header is damaged"),
                                 (sound[:-4096], "truncated or extended"),
                                 (b"", "truncated")):
            with self.subTest(message=message):
                self.journal(server).write_bytes(content)
                self.refuse(server, self.journal(server), message)
        self.journal(server).write_bytes(sound)
        self.assert_keeps(server, "pool")


if __name__ == "__main__":
    system_test.main()

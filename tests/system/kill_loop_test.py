"""Kill, restart, check, again and again: ledgers outside the daemon against what it kept.

Several clients of several threads put, delete, put under conditions, in atomic batches and with
lifetimes of milliseconds, read and scan, each thread on its own keys and on some that all of them
write (tests/system/ledger). The daemon is killed at a random moment: under load, while it shuts
down, and again and again while it recovers; on an ordinary file, too, where a start replays the
journal before it recovers. After each restart the checker compares its content with the ledgers:
every acknowledged write is there, every history is linearizable, no batch is there in part.

LODGEKV_KILL_CYCLES sets the number of cycles, of each engine in each key format; on a file there
are a quarter of them. Where a cycle fails, LODGEKV_KEEP names a folder that gets the ledgers, the
log and the pool.
"""

import os
import pathlib
import random
import re
import shutil
import subprocess
import time

import daemon
import system_test

LOAD_LEDGER = daemon.BIN / "load_ledger"
CYCLES = int(os.environ.get("LODGEKV_KILL_CYCLES", "20"))
KEEP = os.environ.get("LODGEKV_KEEP")
KEY_FORMATS = ("bytes", "fixed64")
CLIENTS = 3
THREADS_PER_CLIENT = 3
# So many keys, and a single thread to recover them, that a kill can come in the middle of it.
FILL = 400_000
POOL_SIZE = 256 * daemon.MIB
KILL_SECONDS = (0.005, 0.5)
# On a file each acknowledgement waits for the disk; so small a journal has checkpoints, too.
FILE_CYCLES = CYCLES // 4
FILE_FILL = 40_000
FILE_FLAGS = {"forced_pmem": False, "journal_size": daemon.MIB}
CREATIONS = 10
CREATION_SECONDS = 0.15  # a little longer than it takes
CLIENT_SECONDS = 120
BACKGROUND_ENDED = "recovery in the background finished"


class Counts:
    """Of one engine, over all of its key formats."""

    def __init__(self):
        self.cycles = self.in_recovery = self.in_replay = self.in_background = 0
        self.in_shutdown = self.replays = 0
        self.acknowledged = self.unknown = self.reads = self.problems = 0

    def line(self, engine):
        return (f"{engine}: {self.cycles} kill cycles, {self.in_recovery} more kills in recovery "
                f"({self.in_replay} of them while it replayed, {self.in_background} in the "
                f"background), {self.in_shutdown} in shutdown, "
                f"{self.acknowledged} acknowledged writes, {self.unknown} unknown, "
                f"{self.reads} reads, {self.problems} lost")


class KillLoopTest(system_test.SystemTest):
    def test_killed_under_load(self):
        self.for_each_engine(self.run_engine)

    def test_killed_under_load_on_an_ordinary_file(self):
        self.for_each_engine(self.run_engine_on_a_file)

    def run_engine_on_a_file(self, engine):
        counts = Counts()
        try:
            for key_format in KEY_FORMATS:
                loop = KillLoop(self, engine, key_format, counts, on_file=True)
                if loop.server.ask_json("status")["medium_class"] != "file":
                    self.skipTest(f"{loop.workdir} is not on a disk")
                loop.run(FILE_FILL, FILE_CYCLES)
        finally:
            print(counts.line(engine), flush=True)

    def test_killed_while_creating(self):
        self.for_each_engine(self.kill_while_creating)

    def test_killed_while_creating_an_ordinary_file(self):
        """Neither a pool without its journal nor a journal without its pool prevents the start."""
        self.kill_while_creating(daemon.persistent_engines()[0], daemon.disk_folder(), **FILE_FLAGS)

    def kill_while_creating(self, engine, parent=None, **flags):
        chance = random.Random(system_test.SEED)
        for _ in range(CREATIONS):
            workdir = self.folder(parent)
            server = daemon.Daemon(workdir, engine=engine, pool=workdir / "pool",
                                   pool_size=64 * daemon.MIB, **flags)
            self.enterContext(server.spawn())
            time.sleep(chance.uniform(0, CREATION_SECONDS))
            server.kill()
            server.start()
            server.ask("put", "k", "v")
            self.assertEqual(server.dump(), [b"k\tv"])
            self.assertEqual(server.stop(), 0, server.tail())
            left = {path.name for path in workdir.iterdir()} - {"pool.journal"}
            self.assertEqual(left, {"pool", "lodgekvd.log"})

    def test_an_older_pool_is_noticed(self):
        """Whatever is lost must be noticed: here all writes since the pool was copied."""
        for engine in daemon.persistent_engines():
            loop = KillLoop(self, engine, "bytes", Counts())
            loop.fill(1000)
            pool, copy = loop.workdir / "pool", loop.workdir / "copy"
            for cycle in range(2):
                if cycle == 1:
                    loop.server.kill()
                    shutil.copy(pool, copy)
                    loop.server.start()
                clients = loop.start_clients(cycle)
                time.sleep(0.5)
                loop.server.kill()
                loop.join(clients)
                if cycle == 1:
                    shutil.copy(copy, pool)
                loop.restart()
                outcome = loop.run_checker()
                self.assertEqual(outcome.returncode, cycle, outcome.stderr)
            self.assertRegex(outcome.stderr, r"key \d+ of range \d+ was .*, is ")

    def run_engine(self, engine):
        counts = Counts()
        try:
            for key_format in KEY_FORMATS:
                KillLoop(self, engine, key_format, counts).run(FILL, CYCLES)
        finally:
            print(counts.line(engine), flush=True)
        if counts.cycles >= len(KEY_FORMATS) * 10:
            # An engine that answers at once recovers in the background alone.
            middle = counts.in_replay if counts.replays > 0 else counts.in_background
            self.assertGreater(middle, 0, "no kill came in the middle of a recovery")


class KillLoop:
    """A pool of one engine and key format, and what became of it."""

    def __init__(self, test, engine, key_format, counts, on_file=False):
        self.test, self.engine, self.key_format, self.counts = test, engine, key_format, counts
        self.random = random.Random(f"{system_test.SEED} {engine} {key_format}")
        self.workdir = test.folder(daemon.disk_folder() if on_file else None)
        self.server = test.daemon(self.workdir, engine=engine, key_format=key_format,
                                  pool=self.workdir / "pool", pool_size=POOL_SIZE,
                                  recovery_threads=1, **(FILE_FLAGS if on_file else {}))
        self.filled = 0
        self.restarted = 0  # where the log begins that the last start wrote
        self.recovery_seconds = 0.1  # of the last one that was left in peace

    def fill(self, keys):
        self.filled = keys
        outcome = self.ledger("fill", keys)
        self.test.assertEqual(outcome.returncode, 0, outcome.stderr)

    def run(self, keys, cycles):
        with self.test.subTest(key_format=self.key_format):
            self.fill(keys)
            for cycle in range(cycles):
                try:
                    self.run_cycle(cycle)
                except BaseException as error:
                    # The next cycles would know nothing of the writes of this one.
                    error.add_note(f"in cycle {cycle}, seed {system_test.SEED}")
                    self.keep(cycle)
                    raise
                self.counts.cycles += 1
            self.test.assertEqual(self.server.stop(), 0, self.server.tail())
            (self.workdir / "pool").unlink()

    def run_cycle(self, cycle):
        clients = self.start_clients(cycle)
        time.sleep(self.random.uniform(*KILL_SECONDS))
        if self.random.random() < 0.2:
            self.kill_in_shutdown()
        else:
            self.server.kill()
        self.join(clients)
        for _ in range(self.random.choice((0, 0, 1, 1, 2, 3))):
            self.kill_in_recovery()
        self.restart()
        self.check()

    def start_clients(self, cycle):
        return [subprocess.Popen(
            self.ledger_command("run", "--cycle", cycle, "--first-client",
                                number * THREADS_PER_CLIENT, "--threads", THREADS_PER_CLIENT,
                                "--out", self.ledger_path(number)),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env=daemon.environment(LODGEKV_TEST_SEED=system_test.SEED))
            for number in range(CLIENTS)]

    def join(self, clients):
        for client in clients:
            message = client.communicate(timeout=CLIENT_SECONDS)[1]
            self.test.assertEqual(client.returncode, 0, message)

    def kill_in_shutdown(self):
        self.server.terminate()
        time.sleep(self.random.uniform(0, 0.008))
        self.counts.in_shutdown += self.server.process.poll() is None
        self.server.kill()

    def kill_in_recovery(self):
        """At any moment of it, or in its last part, where logs are replayed and leaves written, or
        what is left to the background."""
        written = self.server.log.stat().st_size
        self.server.spawn()
        if self.random.random() < 0.5:
            self.wait_for(written, "recovering", " recovered ")
            time.sleep(self.random.uniform(0, self.recovery_seconds / 4))
        else:
            self.wait_for(written, "listening")
            time.sleep(self.random.uniform(0, self.recovery_seconds))
        self.server.kill()
        log = self.log_since(written)
        replays = "recovering" in log
        self.counts.replays += replays
        if "listening" in log and " recovered " not in log:
            self.counts.in_recovery += 1
            self.counts.in_replay += replays
        elif not any(word in log for word in ("recovery=finished", BACKGROUND_ENDED)):
            self.counts.in_recovery += 1
            self.counts.in_background += 1

    def log_since(self, offset):
        with open(self.server.log, "rb") as log:
            log.seek(offset)
            return log.read().decode(errors="replace")

    def wait_for(self, offset, *words):
        """For any of them in the log."""
        deadline = time.monotonic() + daemon.START_SECONDS
        while not any(word in self.log_since(offset) for word in words):
            if self.server.process.poll() is not None or time.monotonic() > deadline:
                self.test.fail(f"the daemon did not come to {words}:\n{self.server.tail()}")
            time.sleep(0.0005)

    def restart(self):
        self.restarted = self.server.log.stat().st_size
        self.server.start()
        self.test.assertIn("recovery report ", self.log_since(self.restarted))

    def note_recovery_seconds(self):
        """Of the last start, with what it did in the background by now."""
        log = self.log_since(self.restarted)
        took = re.findall(rf"(?:recovery report|{BACKGROUND_ENDED}) .*milliseconds=([\d.]+)", log)
        self.recovery_seconds = float(took[-1]) / 1000

    def run_checker(self):
        return self.ledger("check", "--fill", self.filled, "--state", self.workdir / "state",
                           *[self.ledger_path(number) for number in range(CLIENTS)])

    def check(self):
        outcome = self.run_checker()
        found = dict(re.findall(r"(\w+)=(\d+)", outcome.stdout))
        for name in ("acknowledged", "unknown", "reads", "problems"):
            setattr(self.counts, name, getattr(self.counts, name) + int(found.get(name, 0)))
        self.test.assertEqual(outcome.returncode, 0,
                              f"{outcome.stderr}\n{self.server.tail()}")
        check = self.server.ask_json("check")
        self.test.assertTrue(check["sound"], check["problems"])
        self.note_recovery_seconds()

    def ledger_path(self, number):
        return self.workdir / f"ledger{number}"

    def ledger_command(self, *words):
        flags = ["--fixed64"] if self.key_format == "fixed64" else []
        return [str(word) for word in (LOAD_LEDGER, "--server", self.server.server, *flags, *words)]

    def ledger(self, *words):
        return subprocess.run(self.ledger_command(*words), capture_output=True, text=True,
                              check=False, timeout=CLIENT_SECONDS, env=daemon.environment())

    def keep(self, cycle):
        if KEEP is None:
            return
        place = pathlib.Path(KEEP) / f"kill_loop.{self.engine}.{self.key_format}.cycle{cycle}"
        shutil.copytree(self.workdir, place, dirs_exist_ok=True)
        print(f"ledgers, log and pool are kept in {place}", flush=True)


if __name__ == "__main__":
    system_test.main()

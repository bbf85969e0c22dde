"""Kill, restart, verify, again and again: a ledger outside the daemon against what it kept.

Two writers, each on keys of its own, put and delete at random while the daemon is killed at random,
sometimes in its recovery too. After each restart every key has the state of its last acknowledged
write, or of a later one that was under way. LODGEKV_KILL_CYCLES sets the number of cycles.
"""

import os
import random
import time

import daemon
import records
import system_test

CYCLES = int(os.environ.get("LODGEKV_KILL_CYCLES", "20"))
KEYS_PER_WRITER = 3000
WRITERS = 2
RECORDS_PER_LOAD = 60_000
CREATIONS = 10
CREATION_SECONDS = 0.15  # a little longer than it takes
ABSENT = None


class KillLoopTest(system_test.SystemTest):
    def test_ledger(self):
        self.for_each_engine(self.run_cycles)

    def test_killed_while_creating(self):
        self.for_each_engine(self.kill_while_creating)

    def kill_while_creating(self, engine):
        chance = random.Random(system_test.SEED)
        for _ in range(CREATIONS):
            workdir = self.folder()
            server = daemon.Daemon(workdir, engine=engine, pool=workdir / "pool",
                                   pool_size=64 * daemon.MIB)
            self.enterContext(server.spawn())
            time.sleep(chance.uniform(0, CREATION_SECONDS))
            server.kill()
            server.start()
            server.ask("put", "k", "v")
            self.assertEqual(server.dump(), [b"k\tv"])
            self.assertEqual(server.stop(), 0, server.tail())
            self.assertEqual({path.name for path in workdir.iterdir()}, {"pool", "lodgekvd.log"})

    def run_cycles(self, engine):
        self.random = random.Random(system_test.SEED)
        workdir = self.folder()
        server = self.daemon(workdir, engine=engine, pool=workdir / "pool",
                             pool_size=256 * daemon.MIB)
        self.state = {}  # key -> value; a key that is not in it is absent
        for cycle in range(CYCLES):
            with self.subTest(cycle=cycle):
                self.run_cycle(server, workdir, cycle)
        self.assertEqual(server.stop(), 0, server.tail())
        print(f"{engine}: {CYCLES} cycles, {len(self.state)} keys", flush=True)

    def run_cycle(self, server, workdir, cycle):
        loads = [self.start_load(server, workdir, cycle, writer) for writer in range(WRITERS)]
        time.sleep(self.random.uniform(0.005, 0.5))
        server.kill()
        possible = {}
        for load in loads:
            possible |= self.finish_load(*load)
        while self.random.random() < 0.3:  # also in the middle of recovery
            server.spawn()
            time.sleep(self.random.uniform(0, 0.1))
            server.kill()
        server.start()
        self.check(server, possible)

    def start_load(self, server, workdir, cycle, writer):
        """One lodgectl load of puts, or of deletes, on this writer's keys."""
        deletes = self.random.random() < 0.25
        batch, concurrency = self.random.choice((1, 16, 256)), self.random.choice((1, 8))
        lines = []
        for number in range(RECORDS_PER_LOAD):
            key = b"writer%d/%05d" % (writer, self.random.randrange(KEYS_PER_WRITER))
            value = b"%d.%d " % (cycle, number) + b"v" * self.random.choice((0, 10, 100, 1000))
            lines.append((key, ABSENT if deletes else value))
        source, acks = workdir / f"input{writer}", workdir / f"acks{writer}"
        records.write_lines(source, [key + (b"" if value is ABSENT else b"\t" + value)
                                     for key, value in lines])
        acks.unlink(missing_ok=True)
        process = server.start_ctl("load", source, "--format", "tsv", "--ack-log", acks, "--batch",
                                   batch, "--concurrency", concurrency,
                                   *(["--delete"] if deletes else []))
        return process, lines, acks, batch * concurrency

    def finish_load(self, process, lines, acks, window):
        """The states in which a key of this load may be: key -> set of values.

        lodgectl logs in the order of the input: all records up to the first that was not
        acknowledged, then those acknowledged of the calls under way with it. Their keys differ.
        """
        message = process.communicate()[1].decode()
        self.assertIn(process.returncode, (0, 4), message)
        acknowledged = iter(records.read_lines(acks))
        possible, under_way = {}, 0
        expected = next(acknowledged, None)
        for key, value in lines:
            if key == expected:
                possible[key] = {value}
                expected = next(acknowledged, None)
            else:
                possible.setdefault(key, {self.state.get(key, ABSENT)}).add(value)
                under_way = 1
            window -= under_way
            if window == 0:
                break
        self.assertIsNone(expected, f"a key in the ack log out of order; {message}")
        return possible

    def check(self, server, possible):
        now = dict(line.split(b"\t") for line in server.dump())
        for key in now.keys() | self.state.keys() | possible.keys():
            allowed = possible.get(key, {self.state.get(key, ABSENT)})
            self.assertIn(now.get(key, ABSENT), allowed, f"{key}; seed {system_test.SEED}")
        check = server.ask_json("check")
        self.assertTrue(check["sound"], check["problems"])
        self.state = now


if __name__ == "__main__":
    system_test.main()

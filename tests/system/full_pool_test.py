"""A full pool refuses writes with a named error, everything else works; deletes make room again."""

import daemon
import records
import system_test

VALUE_SIZES = (100, 3000)
FILLS = 3
# A fill after deletes holds at least this share of what the first one held.
SAME_ROOM = 0.9
# These keep a leaf, or its head, until its last key goes (their READMEs, Limits).
SAME_ROOM_OF_SCATTERED = {"lbtree": 0.4, "sstree": 0.3}
# Single writes that may still succeed when a load found no room: the refused keys may need a new
# leaf where others do not, and each thread holds some spare leaves.
LAST_WRITES = 2000
# Of each load of single records: most of them find no room.
SINGLE_WRITES = 2000
# Random keys refused in a row: then the pool is full.
REFUSALS = 20


def a_range(keys):
    """Nine tenths of the keys, neighbours."""
    return sorted(keys)[len(keys) // 20:-len(keys) // 20]


def scattered(keys):
    """Nine tenths of the keys, in no order: some neighbour of each one stays."""
    return [key for number, key in enumerate(keys) if number % 10]


class FullPoolTest(system_test.SystemTest):
    def test_deleting_a_range_makes_room(self):
        self.for_each_engine(lambda engine: self.run_sizes(engine, a_range, SAME_ROOM))

    def test_deleting_here_and_there_makes_room(self):
        self.for_each_engine(lambda engine: self.run_sizes(
            engine, scattered, SAME_ROOM_OF_SCATTERED.get(engine, SAME_ROOM)))

    def run_sizes(self, engine, choose, same_room):
        for size in VALUE_SIZES:
            with self.subTest(value_size=size):
                self.run_story(engine, size, choose, same_room)

    def run_story(self, engine, size, choose, same_room):
        workdir = self.folder()
        server = self.daemon(workdir, engine=engine, pool=workdir / "pool",
                             pool_size=32 * daemon.MIB)
        content, counts = {}, []
        for fill in range(FILLS):
            self.fill(server, workdir, fill, size, content)
            counts.append(len(content))
            if fill == 1:  # a full pool is recovered like any other
                server.kill()
                server.start()
            self.check(server, content)
            self.check_full(server, content)
            self.delete(server, workdir, content, choose(content))
            self.check(server, content)
            server.ask("put", "room", "v" * size)
            server.ask("delete", "room")
        print(f"{engine}, values of {size}: {counts} keys", flush=True)
        self.assertGreater(min(counts), same_room * counts[0], f"room is lost: {counts}")
        self.assertEqual(server.stop(), 0, server.tail())
        server.start()
        self.check(server, content)
        server.kill()

    def fill(self, server, workdir, fill, size, content):
        """Loads until nothing fits: big calls first, then single records into what they leave."""
        fits = 40 * daemon.MIB // size
        keys = records.shuffled([b"%d/%07d" % (fill, number) for number in range(fits)],
                                system_test.SEED + fill)
        while self.load(server, workdir, keys, 100, size, content):
            keys = [key for key in keys if key not in content]
        refused = 0
        while refused < REFUSALS:
            if self.load(server, workdir, keys[:SINGLE_WRITES], 1, size, content):
                keys = [key for key in keys if key not in content]
            else:
                refused += 1
                keys = keys[1:]  # its leaf is full, others may not be
        self.fill_up(server, fill, size, content)

    def load(self, server, workdir, keys, batch, size, content):
        """Loads until a call is refused, and says how many records were taken."""
        source, acks = workdir / "input.tsv", workdir / "acks"
        records.write_lines(source, [key + b"\t" + self.value_of(key, size) for key in keys])
        acks.unlink(missing_ok=True)
        outcome = server.ctl("load", source, "--ack-log", acks, "--batch", batch)
        self.assertNotIn(b"may or may not", outcome.stderr)
        acknowledged = records.read_lines(acks)
        if len(acknowledged) < len(keys):
            self.assert_error(outcome, 4, "RESOURCE_EXHAUSTED (POOL_FULL)")
        content |= {key: self.value_of(key, size) for key in acknowledged}
        return len(acknowledged)

    def fill_up(self, server, fill, size, content):
        for number in range(LAST_WRITES):
            key = b"last/%d/%d" % (fill, number)
            outcome = server.ctl("put", key, self.value_of(key, size))
            if outcome.returncode != 0:
                return self.assert_error(outcome, 4, "RESOURCE_EXHAUSTED (POOL_FULL)")
            content[key] = self.value_of(key, size)
        return self.fail(f"{LAST_WRITES} single writes found room where a load found none")

    @staticmethod
    def value_of(key, size):
        return (records.value_of(key) + b" ").ljust(size, b"v")

    def check(self, server, content):
        lines = [key + b"\t" + value for key, value in sorted(content.items())]
        self.assert_same_lines(server.dump(), lines, "dump")
        self.assertEqual(server.key_count(), len(content))
        check = server.ask_json("check")
        self.assertTrue(check["sound"], check["problems"])

    def check_full(self, server, content):
        key = next(iter(content))
        self.assertEqual(server.ask("get", "--raw", key), content[key])
        self.assertEqual(server.ctl("get", "never written").returncode, 1)
        space = server.ask_json("stats")["space"]
        self.assertEqual(int(space["total_bytes"]), sum(
            int(space[part]) for part in ("used_bytes", "free_bytes", "reserved_bytes")))

    def delete(self, server, workdir, content, doomed):
        """First a single one: a full pool must take a delete. Then all, which may find it gone."""
        server.ask("delete", doomed[0])
        source = workdir / "doomed.tsv"
        records.write_lines(source, doomed)
        server.ask("load", "--delete", source)
        for key in doomed:
            del content[key]


if __name__ == "__main__":
    system_test.main()

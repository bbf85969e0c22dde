"""A full pool refuses writes by name and goes on with everything else; deletes make room again."""

import daemon
import records
import system_test

VALUE_SIZES = (100, 3000)
FILLS = 3
# A fill after deletes holds at least this share of what the first one held.
SAME_ROOM = 0.9


class FullPoolTest(system_test.SystemTest):
    def test_fill_delete_fill(self):
        self.for_each_engine(self.run_sizes)

    def run_sizes(self, engine):
        for size in VALUE_SIZES:
            with self.subTest(value_size=size):
                self.run_story(engine, size)

    def run_story(self, engine, size):
        workdir = self.folder()
        server = self.daemon(workdir, engine=engine, pool=workdir / "pool",
                             pool_size=32 * daemon.MIB)
        content, counts = {}, []
        for fill in range(FILLS):
            self.fill(server, workdir, fill, size, content)
            counts.append(len(content))
            self.check_full(server, content, size)
            if fill == 1:  # a full pool is recovered like any other
                server.kill()
                server.start()
                self.check(server, content)
            self.delete_most(server, workdir, content)
            self.check(server, content)
            server.ask("put", "room", "v" * size)
            server.ask("delete", "room")
        print(f"{engine}, values of {size}: {counts} keys", flush=True)
        self.assertGreater(min(counts), SAME_ROOM * counts[0], f"room is lost: {counts}")
        self.assertEqual(server.stop(), 0, server.tail())
        server.start()
        self.check(server, content)
        server.kill()

    def fill(self, server, workdir, fill, size, content):
        """Loads until nothing fits: big calls first, then single records into what they leave."""
        fits = 40 * daemon.MIB // size
        keys = records.shuffled([b"%d/%07d" % (fill, number) for number in range(fits)],
                                system_test.SEED + fill)
        batch, acknowledged = 100, None
        while acknowledged != []:
            source, acks = workdir / "input.tsv", workdir / "acks"
            records.write_lines(source, [key + b"\t" + self.value_of(key, size) for key in keys])
            acks.unlink(missing_ok=True)
            outcome = server.ctl("load", source, "--ack-log", acks, "--batch", batch)
            self.assert_error(outcome, 4, "RESOURCE_EXHAUSTED (POOL_FULL)")
            self.assertNotIn(b"may or may not", outcome.stderr)
            acknowledged = records.read_lines(acks)
            content |= {key: self.value_of(key, size) for key in acknowledged}
            keys = [key for key in keys if key not in content]
            batch = 1

    @staticmethod
    def value_of(key, size):
        return (records.value_of(key) + b" ").ljust(size, b"v")

    def check(self, server, content):
        lines = [key + b"\t" + value for key, value in sorted(content.items())]
        self.assert_same_lines(server.dump(), lines, "dump")
        self.assertEqual(server.key_count(), len(content))
        check = server.ask_json("check")
        self.assertTrue(check["sound"], check["problems"])

    def check_full(self, server, content, size):
        self.check(server, content)
        self.assert_error(server.ctl("put", "one more", "v" * size), 4,
                          "RESOURCE_EXHAUSTED (POOL_FULL)")
        key = next(iter(content))
        self.assertEqual(server.ask("get", "--raw", key), content[key])
        self.assertEqual(server.ctl("get", "one more").returncode, 1)
        space = server.ask_json("stats")["space"]
        self.assertEqual(int(space["total_bytes"]), sum(
            int(space[part]) for part in ("used_bytes", "free_bytes", "reserved_bytes")))

    def delete_most(self, server, workdir, content):
        """All but each tenth key, first a single one: a full pool must take a delete."""
        doomed = [key for number, key in enumerate(content) if number % 10]
        server.ask("delete", doomed[0])
        source = workdir / "doomed.tsv"
        records.write_lines(source, doomed[1:])
        server.ask("load", "--delete", source)
        for key in doomed:
            del content[key]


if __name__ == "__main__":
    system_test.main()

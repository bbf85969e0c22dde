"""Real words and real paths through the whole system, over kills and restarts.

The words of the dictionary and every path below /usr are loaded by lodgectl. The daemon is killed
in the middle of each of several loads. After each restart every acknowledged key is there with its
value; of the calls that were under way each is there whole or not at all; nothing else is there.
"""

import contextlib
import itertools
import subprocess
import time

import daemon
import records
import system_test

# (share of the keys to feed before the kill, records a call, calls under way, shuffled)
ROUNDS = [(0.15, 256, 4, False), (0.05, 1, 64, True), (0.25, 100, 8, True), (0.3, 1000, 2, False)]
DISK_ROUNDS = [(0.3, 16, 4, False), (0.1, 1, 16, True), (0.25, 10, 8, True)]
DISK_SAMPLE = 100
PREFIXES = [b"/usr/share/doc/", b"/usr/lib", b"q", b"zz", b"Z", b"/usr/bin/p", b"\xc3"]


class RealInputTest(system_test.SystemTest):
    def use_keys(self, keys):
        self.keys = keys
        self.line = {key: records.line_of(key, records.value_of(key)) for key in keys}
        self.key_of_line = {line: key for key, line in self.line.items()}
        self.key_of_text = {records.escape_key(key): key for key in keys}
        print(f"{len(keys)} keys", flush=True)

    def test_in_memory(self):
        self.use_keys(records.real_keys())
        self.for_each_engine(
            lambda engine: self.run_story(engine, self.folder(), ROUNDS, forced_pmem=True))

    def test_on_an_ordinary_file(self):
        """A sample of the keys: here each acknowledgement waits for the disk."""
        self.use_keys(records.real_keys()[::DISK_SAMPLE])
        engine = daemon.persistent_engines()[0]
        self.run_story(engine, self.folder(daemon.disk_folder()), DISK_ROUNDS, forced_pmem=False)

    def run_story(self, engine, workdir, rounds, forced_pmem):
        pool = workdir / "pool"
        server = self.daemon(workdir, engine=engine, pool=pool, pool_size=512 * daemon.MIB,
                             forced_pmem=forced_pmem)
        print(f"{engine}: {server.ask_json('status')['medium_class']}", flush=True)
        there = set()
        for number, story in enumerate(rounds):
            there = self.load_until_killed(server, workdir, there, number, *story)
        self.load_everything(server, workdir)
        self.assertEqual(server.stop(), 0, server.tail())
        server.start()
        self.assertTrue(server.ask_json("status")["recovery"]["clean"])
        self.check_content(server, self.keys)
        self.delete_a_part(server, workdir)
        server.kill()

    def load_until_killed(self, server, workdir, there, number, share, batch, concurrency, shuffle):
        """Loads what is not there; returns what is there after kill and restart."""
        keys = [key for key in self.keys if key not in there]
        if shuffle:
            keys = records.shuffled(keys, system_test.SEED + number)
        acks = workdir / f"acks{number}"
        load = server.start_ctl("load", "-", "--ack-log", acks, "--batch", batch, "--concurrency",
                                concurrency, stdin=subprocess.PIPE)
        until_kill = int(share * len(self.keys))
        feed = iter([self.line[key] + b"\n" for key in keys])
        load.stdin.writelines(itertools.islice(feed, until_kill))
        for line in feed:  # on a slow medium, until part of that is acknowledged
            if len(records.read_lines(acks)) >= until_kill / 4:
                break
            load.stdin.write(line)
            load.stdin.flush()
            time.sleep(0.002)
        server.kill()
        with contextlib.suppress(BrokenPipeError):  # lodgectl ends before it has read the rest
            load.stdin.writelines(feed)
        message = load.communicate()[1].decode()
        acknowledged = [self.key_of_text[text] for text in records.read_lines(acks)]
        self.assertEqual(load.returncode, 4, message)
        self.assertIn(f"{len(acknowledged)} records were acknowledged", message)
        self.assertTrue(acknowledged)
        known = set(acknowledged)
        self.assert_same_lines(acknowledged, [key for key in keys if key in known],
                               "the order of the ack log")

        server.start()
        now = self.check_after_kill(server, there | known)
        self.check_batches(keys, known, now, batch, concurrency)
        print(f"  kill {number}: {len(acknowledged)} acknowledged, {len(now)} there", flush=True)
        return now

    def check_after_kill(self, server, must_be_there):
        lines = server.dump()
        now = {self.key_of_line.get(line) for line in lines}
        self.assertNotIn(None, now, "a line that was never written")
        missing = must_be_there - now
        self.assertEqual(len(missing), 0, f"acknowledged keys are lost: {list(missing)[:5]}")
        self.assert_same_lines(lines, [self.line[key] for key in sorted(now)], "the order of dump")
        self.assertEqual(server.key_count(), len(now))
        return now

    def check_batches(self, keys, acknowledged, now, batch, concurrency):
        """Each call under way is there whole or not at all, and there were not too many."""
        surplus = 0
        for start in range(0, len(keys), batch):
            call = keys[start:start + batch]
            found = sum(key in now for key in call)
            self.assertIn(found, (0, len(call)), f"a torn call of {len(call)}, from {call[0]}")
            known = sum(key in acknowledged for key in call)
            self.assertIn(known, (0, len(call)), f"a call acknowledged in part, from {call[0]}")
            surplus += found > 0 and known == 0
        self.assertLessEqual(surplus, concurrency, "more unacknowledged calls than were under way")

    def load_everything(self, server, workdir):
        source, acks = workdir / "input.tsv", workdir / "acks"
        records.write_lines(source, [self.line[key] for key in self.keys])
        server.ask("load", source, "--ack-log", acks)
        self.assert_same_lines(records.read_lines(acks),
                               [records.escape_key(key) for key in self.keys],
                               "the ack log of a whole load")
        self.check_content(server, self.keys)
        self.check_scans(server)
        self.check_gets(server)

    def check_content(self, server, keys):
        self.assert_same_lines(server.dump(), [self.line[key] for key in keys], "dump")
        self.assertEqual(server.key_count(), len(keys))
        check = server.ask_json("check")
        self.assertTrue(check["sound"], check["problems"])
        self.assertEqual(int(check["keys"]), len(keys))

    def check_scans(self, server):
        for prefix in PREFIXES:
            lines = [self.line[key] for key in self.keys if key.startswith(prefix)]
            found = server.ask("scan", "--prefix", prefix).split(b"\n")[:-1]
            self.assert_same_lines(found, lines, f"scan of {prefix}")
            last = server.ask("scan", "--reverse", "--keys-only", "--limit", 10, "--prefix", prefix)
            texts = [line.split(b"\t")[0] for line in reversed(lines[-10:])]
            self.assertEqual(last.split(b"\n")[:-1], texts, f"reverse scan of {prefix}")
        start, end = self.keys[len(self.keys) // 3], self.keys[len(self.keys) // 2]
        lines = [self.line[key] for key in self.keys if start <= key < end]
        found = server.ask("scan", "--start", start, "--end", end).split(b"\n")[:-1]
        self.assert_same_lines(found, lines, f"scan from {start} to {end}")

    def check_gets(self, server):
        for key in records.shuffled(self.keys, system_test.SEED)[:10]:
            self.assertEqual(server.ask("get", "--raw", "--", key), records.value_of(key))
            self.assertEqual(server.ctl("get", "--", key + b"/absent").returncode, 1)

    def delete_a_part(self, server, workdir):
        """Single keys everywhere and a long run of neighbours; then a kill, and a clean restart."""
        doomed = {key for number, key in enumerate(self.keys)
                  if number % 3 == 0 or key.startswith(b"/usr/share/doc/")}
        kept = [key for key in self.keys if key not in doomed]
        source = workdir / "doomed.tsv"
        records.write_lines(source, [records.escape_key(key) for key in
                                     records.shuffled(sorted(doomed), system_test.SEED)])
        server.ask("load", "--delete", source)
        self.check_content(server, kept)
        server.kill()
        server.start()
        self.check_content(server, kept)
        self.assertEqual(server.stop(), 0, server.tail())
        server.start()
        self.check_content(server, kept)


if __name__ == "__main__":
    system_test.main()

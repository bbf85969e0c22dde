"""What a request cost the medium: in its trailer, in the metrics by call, and in both the same.

What the requests' shares add up to is what the engine flushed, fenced and wrote for them: nothing
is counted twice where writes share a group, and nothing is left out.
And what a call costs the processor beside: how many threads it wakes.
"""

import json
import re
import subprocess
import time

import daemon
import metrics_page
import system_test

NUMBERS = ("lines flushed", "fences", "media writes of 256 bytes", "bytes stored")
METRICS = ("lines_flushed_total", "fences_total", "media_writes_256b_total", "stored_bytes_total")
SINGLE_PUTS = ("--cost", "load", "--concurrency", "64", "--batch", "1", "-")
CALLS = ("Get", "Put", "Delete", "Scan", "BatchGet", "BatchWrite")
CALL_COST = daemon.LODGEKVD.with_name("call_cost")
# Of threads of the server, for a call with nothing else in flight: measured 3.3 to 3.9.
MOST_SLEEPS = 6


def cost_in(stderr):
    """The numbers of lodgectl's line, as a list in the order of NUMBERS."""
    line = [line for line in stderr.decode().splitlines() if line.startswith("cost: ")][-1]
    return [int(re.search(rf"^cost: .*?\b{name} (\d+)", line)[1]) for name in NUMBERS]


def add(*costs):
    return [sum(numbers) for numbers in zip(*costs)]


def less(after, before):
    return [a - b for a, b in zip(after, before)]


class RequestCostTest(system_test.SystemTest):
    def serve(self, engine, **flags):
        workdir = self.folder()
        self.metrics = f"127.0.0.1:{daemon.free_port()}"
        # One thread for writes, so that concurrent ones form one group.
        return self.daemon(workdir, engine=engine, pool=workdir / "pool", threads=1,
                           pool_size=128 * daemon.MIB, metrics_listen=self.metrics, **flags)

    def scrape(self):
        return metrics_page.read(self.metrics)

    def engine_total(self, metrics, engine):
        return [int(metrics.value(f"lodgekv_{name}", engine=engine)) for name in METRICS]

    def by_call(self, metrics, call):
        return [int(metrics.value(f"lodgekv_rpc_{name}", rpc=call)) for name in METRICS]

    def cost_of(self, server, *words, **options):
        outcome = server.ctl("--cost", *words, **options)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return cost_in(outcome.stderr)

    # --- one request ---

    def test_single_requests(self):
        self.for_each_engine(self.single_requests)

    def single_requests(self, engine):
        server = self.serve(engine)
        lines, fences, blocks, stored = self.cost_of(server, "put", "key", "v" * 1000)
        self.assertGreaterEqual(lines, 16)  # of 64 bytes, for the value alone
        self.assertGreaterEqual(fences, 1)
        self.assertGreaterEqual(blocks, 4)
        self.assertLessEqual(blocks, lines)
        self.assertGreaterEqual(stored, 1000)
        small = self.cost_of(server, "put", "another", "v")
        self.assertLess(small[0], lines)
        for words in (["get", "key"], ["scan"], ["dump"]):
            self.assertEqual(self.cost_of(server, *words), [0, 0, 0, 0], words)
        self.assertGreaterEqual(self.cost_of(server, "delete", "key")[1], 1)
        refused = server.ctl("--cost", "put", "another", "w", "--if-absent")
        self.assertEqual(refused.returncode, 3)
        self.assertEqual(cost_in(refused.stderr)[1], 0, "a write that was not made has no fence")
        self.assertNotIn(b"cost", server.ctl("put", "k", "v").stderr)

    # --- the sum ---

    def test_shares_add_up_to_what_the_engine_did(self):
        self.for_each_engine(self.add_up)

    def add_up(self, engine):
        server = self.serve(engine)
        before = self.scrape()
        told = self.make_new_keys(server)
        after = self.scrape()
        total = less(self.engine_total(after, engine), self.engine_total(before, engine))
        calls = add(*self.told_and_counted(told, before, after).values())
        if self.steps(after, engine) == self.steps(before, engine):
            self.assertEqual(calls, total)
        else:
            self.assert_most_of(calls, total)
        groups = (after["lodgekv_write_groups_total"] - before["lodgekv_write_groups_total"])
        writes = (after["lodgekv_write_group_operations_total"]
                  - before["lodgekv_write_group_operations_total"])
        self.assertLess(groups, writes / 2, "few writes shared a group, so the test shows little")

        # Replaced and deleted records are freed by a thread of the engine.
        told = self.replace_and_delete(server)
        last = self.scrape()
        total = less(self.engine_total(last, engine), self.engine_total(after, engine))
        self.assert_most_of(add(*self.told_and_counted(told, after, last).values()), total)

    @staticmethod
    def steps(metrics, engine):
        """Of a thread of the engine, on behalf of no request."""
        return metrics.get(
            metrics_page.sample("lodgekv_engine_background_steps_total", engine=engine), 0)

    def assert_most_of(self, calls, total):
        for name, of_calls, of_all in zip(METRICS, calls, total):
            self.assertLessEqual(of_calls, of_all, name)
            self.assertGreater(of_calls, 0.95 * of_all, name)

    def told_and_counted(self, told, before, after):
        """Cost by call, after checking that clients were told what the metrics say."""
        calls = {call: less(self.by_call(after, call), self.by_call(before, call))
                 for call in CALLS}
        for call in CALLS:
            self.assertEqual(calls[call], told.get(call, [0, 0, 0, 0]), call)
        for call in set(told) - {"Get", "Scan"}:
            self.assertGreater(min(calls[call]), 0, call)
        return calls

    @staticmethod
    def records(name, count, size):
        return b"".join(b"%s%d\t%s\n" % (name, i, b"x" * (i % size)) for i in range(count))

    def make_new_keys(self, server):
        """Single writes of two clients at once, and batches; the cost that each call's got."""
        clients = [server.start_ctl(*SINGLE_PUTS, stdin=daemon.subprocess.PIPE) for _ in range(2)]
        for client, name in zip(clients, (b"a", b"b")):
            client.stdin.write(self.records(name, 4000, 700))
            client.stdin.close()
            client.stdin = None
        costs = []
        for client in clients:
            _, stderr = client.communicate(timeout=120)
            self.assertEqual(client.returncode, 0, stderr)
            costs.append(cost_in(stderr))
        batches = self.cost_of(server, "load", "-", input=self.records(b"c", 3000, 90))
        return {"Put": add(*costs), "BatchWrite": batches,
                "Get": self.cost_of(server, "get", "b7"),
                "Scan": self.cost_of(server, "scan", "--prefix", "b1")}

    def replace_and_delete(self, server):
        puts = self.cost_of(server, *SINGLE_PUTS[1:], input=self.records(b"a", 4000, 300))
        deletes = [self.cost_of(server, "delete", f"b{i}") for i in range(5)]
        return {"Put": puts, "Delete": add(*deletes)}

    # --- wake-ups ---

    def test_a_lone_call_wakes_few_threads(self):
        # An engine that waits for nothing.
        server = self.daemon(self.folder(), engine="dram", threads=1)
        for call in ("get", "put", "batch_get", "batch_write"):
            outcome = subprocess.run(
                [CALL_COST, "--call", call, "--in-flight", "1", "--keys", "1000", "--seconds",
                 "0.5", "--server", server.server, "--server-pid", str(server.process.pid)],
                capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(outcome.returncode, 0, outcome.stderr)
            cost = json.loads(outcome.stdout)
            self.assertGreater(cost["calls"], 0)
            self.assertLess(cost["sleeps_per_call"], MOST_SLEEPS, call)

    # --- the log of slow requests ---

    def test_a_slow_request_tells_its_cost(self):
        server = self.serve(daemon.persistent_engines()[0], slow_request="1ms")
        lines = b"".join(b"key%d\t%s\n" % (i, b"v" * 4000) for i in range(1000))
        costs = [self.cost_of(server, "load", "--atomic", "-", input=lines) for _ in range(3)]
        deadline = time.monotonic() + 10
        while "slow request rpc=BatchWrite" not in server.tail():
            self.assertLess(time.monotonic(), deadline, server.tail())
            time.sleep(0.1)
        slow = [line for line in server.log.read_text().splitlines()
                if "slow request rpc=BatchWrite" in line]
        for line in slow:
            told = [int(re.search(rf"\b{name}=(\d+)", line)[1]) for name in
                    ("lines_flushed", "fences", "media_writes_256b")]
            self.assertIn(told, [cost[:3] for cost in costs])
            self.assertIn(f"share_lines_flushed={told[0]} ", line)
            self.assertIn("group_operations=1000 ", line)


if __name__ == "__main__":
    system_test.main()

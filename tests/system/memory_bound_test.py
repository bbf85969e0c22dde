"""The memory that docs/operations.md promises is enough, and memory of a burst is freed.

The daemon runs in a memory cgroup of that size if the test may create one; otherwise its memory is
read from /proc, and the test prints that.
"""

import contextlib
import multiprocessing
import threading
import time

import grpc

import daemon
import kv_messages
import memory_group
import raw_client
import system_test

MIB = daemon.MIB
INFLIGHT = 64 * MIB
# docs/operations.md, Sizing.
BOUND = 100 * MIB + INFLIGHT * 19 // 8
CLIENTS = 4
CALLS_AT_A_TIME = 16
LARGE = bytes(MIB - 100)
SECONDS = 6
SETTLE_SECONDS = 15


def request_of(client, number):
    """Batches of almost 4 MiB and values of almost 1 MiB, written and read."""
    key = b"large/%d" % (number % 24)
    if number % 4 == 0:
        return "BatchWrite", kv_messages.batch_write(
            [(b"batch/%d/%d" % (client, index), LARGE) for index in range(4)])
    if number % 4 == 1:
        return "Put", kv_messages.put(key, LARGE)
    if number % 4 == 2:
        return "BatchGet", kv_messages.batch_get(
            [b"large/%d" % ((number + index) % 24) for index in range(4)])
    return "Get", kv_messages.get(key)


def work(server, client, outcomes):
    """A client that always has some calls under way, and tries again what is refused."""
    answered = refused = 0
    with raw_client.channel(server) as made:
        deadline = time.monotonic() + SECONDS
        under_way = []
        number = client
        while time.monotonic() < deadline:
            while len(under_way) < CALLS_AT_A_TIME:
                number += 1
                under_way.append(raw_client.start(made, *request_of(client, number)))
            try:
                under_way.pop(0).result()
                answered += 1
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
                    outcomes.put(f"{error.code()} {error.details()}")
                    return
                refused += 1
                time.sleep(0.05)
        for call in under_way:
            call.cancel()
    outcomes.put((answered, refused))


class MemoryBoundTest(system_test.SystemTest):
    def group(self):
        if daemon.SANITIZED:
            return None
        try:
            group = memory_group.MemoryGroup(BOUND)
        except memory_group.Unavailable as why:
            print(f"no memory cgroup, so that /proc is read instead: {why}")
            return None
        self.addCleanup(group.remove)
        return group

    def private_bytes(self, server):
        with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))

    def watch(self, server, done, peaks):
        while not done.is_set() and server.process.poll() is None:
            peaks[0] = max(peaks[0], self.private_bytes(server))
            time.sleep(0.01)

    def load(self, server):
        context = multiprocessing.get_context("spawn")
        outcomes = context.Queue()
        clients = [context.Process(target=work, args=(server.server, number, outcomes))
                   for number in range(CLIENTS)]
        for client in clients:
            client.start()
        results = [outcomes.get(timeout=120) for _ in clients]
        for client in clients:
            client.join()
        return results

    def test_four_clients_with_large_values(self):
        group = self.group()
        # On a disk: a pool in memory would count as memory of the daemon.
        workdir = self.folder(daemon.disk_folder())
        server = daemon.Daemon(workdir, forced_pmem=False, pool=workdir / "pool",
                               pool_size=256 * MIB, durability="process", threads=2,
                               max_inflight_size=INFLIGHT)
        server.before_start = group.add_this_process if group else None
        self.enterContext(server)
        with raw_client.channel(server.server) as made:
            for number in range(24):
                raw_client.call(made, "Put", kv_messages.put(b"large/%d" % number, LARGE))
        before = self.private_bytes(server)
        peaks = [before]
        done = threading.Event()
        watcher = threading.Thread(target=self.watch, args=(server, done, peaks))
        watcher.start()
        results = self.load(server)
        done.set()
        watcher.join()
        self.assertIsNone(server.process.poll(), "killed for its memory:\n" + server.tail())
        after = self.settle(server, before)
        print(f"private memory: {before // MIB} MiB before, peak {peaks[0] // MIB} MiB of "
              f"{BOUND // MIB}, {after // MIB} MiB after; answered and refused: {results}")
        if not daemon.SANITIZED:
            self.assertLessEqual(peaks[0], BOUND)
            self.assertLessEqual(after, before + 48 * MIB, "memory of a burst is given back")
        for outcome in results:
            self.assertIsInstance(outcome, tuple, outcome)
            self.assertGreater(outcome[0], 0)

    def test_batches_that_are_refused(self):
        """Of nothing, from several at a time: within what stands beside max_inflight_size."""
        server = self.daemon(self.folder(), engine="dram", threads=2,
                             max_invalid_size_per_second=0)
        batch = b"\x0a\x00" * 2_600_000
        peaks = [self.private_bytes(server)]
        done = threading.Event()
        watcher = threading.Thread(target=self.watch, args=(server, done, peaks))
        watcher.start()
        with contextlib.ExitStack() as stack:
            stack.callback(watcher.join)
            stack.callback(done.set)
            channels = [stack.enter_context(raw_client.channel(server.server)) for _ in range(4)]
            for _ in range(10):
                for answer in [raw_client.start(made, "BatchWrite", batch) for made in channels]:
                    self.assertEqual(answer.code(), grpc.StatusCode.INVALID_ARGUMENT)
        print(f"private memory: peak {peaks[0] // MIB} MiB beside batches of nothing")
        if not daemon.SANITIZED:
            self.assertLess(peaks[0], 150 * MIB)

    def settle(self, server, before):
        deadline = time.monotonic() + SETTLE_SECONDS
        while (now := self.private_bytes(server)) > before + 48 * MIB:
            if time.monotonic() > deadline:
                break
            time.sleep(0.2)
        return now


if __name__ == "__main__":
    system_test.main()

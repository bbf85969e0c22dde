"""Harmful requests: what remains of them, and their effect on another client.

The figures that it prints are those of docs/reliability.md.
"""

import contextlib
import multiprocessing
import os
import threading
import time

import grpc

import daemon
import kv_messages
import raw_client
import system_test

MIB = daemon.MIB
SETTLE_SECONDS = 20


def keep_in_hand(server, first, stop):
    """A client that asks for a hundred batches at a time, one time after another."""
    with raw_client.channel(server) as made:
        while not stop.is_set():
            keys = [b"fill/%06d" % ((first + number) % 4000) for number in range(16)]
            for answer in [raw_client.start(made, "BatchGet", kv_messages.batch_get(keys))
                           for _ in range(100)]:
                with contextlib.suppress(grpc.RpcError):
                    answer.result()


class HostileRequestsTest(system_test.SystemTest):
    def serve(self, **flags):
        return self.daemon(self.folder(), engine="dram", threads=2, **flags)

    def descriptors(self, server):
        return len(os.listdir(f"/proc/{server.process.pid}/fd"))

    def await_resident(self, server, most, message):
        if daemon.SANITIZED:
            return server.memory()
        return self.await_at_most(server.memory, most, message)

    def await_at_most(self, measure, most, message):
        """Until measure() is at most that; the last measure."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while (now := measure()) > most and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertLessEqual(now, most, message)
        return now

    def quiet_rate(self, server, seconds=2):
        with raw_client.HonestClient(server.server) as honest:
            time.sleep(seconds)
        print(f"alone: {honest}")
        return honest

    def fill(self, server, count, size):
        with raw_client.channel(server.server) as made:
            for number in range(count):
                raw_client.call(made, "Put", kv_messages.put(b"fill/%06d" % number, b"v" * size))

    # --- what remains ---

    def test_closed_connections_leave_no_descriptor(self):
        server = self.serve()
        self.quiet_rate(server, 0.2)
        before = self.descriptors(server)
        with contextlib.ExitStack() as stack:
            channels = [stack.enter_context(raw_client.channel(server.server)) for _ in range(200)]
            for method, message in (("Put", kv_messages.put(b"k", b"v")),
                                    ("Get", kv_messages.get(b"k"))):
                # All at a time, so that as many call objects are in use.
                for answer in [raw_client.start(made, method, message) for made in channels]:
                    answer.result()
            self.assertGreater(self.descriptors(server), before + 150)
        after = self.await_at_most(lambda: self.descriptors(server), before + 8,
                                   "descriptors of connections that are closed")
        print(f"descriptors: {before} before, {after} after 200 connections")

    def leave_nothing(self, what, method, message, code):
        server = self.serve(max_invalid_size_per_second=0)
        self.quiet_rate(server, 0.5)
        before = server.memory()
        with raw_client.channel(server.server) as made:
            for _ in range(9):
                self.assertEqual(raw_client.code_of(made, method, message), code)
        peak = server.memory("VmHWM")
        after = self.await_resident(server, before + 64 * MIB, f"{what} pin memory")
        print(f"{what}: {before // MIB} MiB before, peak "
              f"{peak // MIB} MiB, {after // MIB} MiB after 9")
        return peak - before

    def build_nothing(self, what, method, message):
        """Refused without being taken apart: some messages as they came are all that is held."""
        risen = self.leave_nothing(what, method, message, grpc.StatusCode.INVALID_ARGUMENT)
        if not daemon.SANITIZED:
            self.assertLess(risen, 96 * MIB, f"{what} are taken apart before they are refused")

    def test_empty_operations_pin_nothing(self):
        self.build_nothing("empty operations", "BatchWrite", b"\x0a\x00" * 2_600_000)

    def test_empty_keys_pin_nothing(self):
        self.build_nothing("empty keys", "BatchGet", b"\x0a\x00" * 2_600_000)

    def test_unknown_fields_of_batches_pin_nothing(self):
        unknown = b"\x7a\x00" * 2_600_000
        self.build_nothing("unknown fields of a BatchWrite", "BatchWrite", unknown)
        self.build_nothing("unknown fields of an operation", "BatchWrite",
                           kv_messages.field(1, unknown))
        self.build_nothing("fields of a ttl", "BatchWrite",
                           kv_messages.field(1, kv_messages.field(6, b"\x10\x01" * 2_600_000)))
        self.build_nothing("unknown fields of a BatchGet", "BatchGet", unknown)

    def test_invalid_requests_without_end_end_their_connection(self):
        """Refusing them costs little, receiving them does; a few by mistake do no harm."""
        server = self.serve()
        batch = b"\x0a\x00" * (MIB // 2)
        with raw_client.HonestClient(server.server) as honest:
            with raw_client.channel(server.server) as made:
                codes = [raw_client.code_of(made, "BatchWrite", batch) for _ in range(25)]
                self.assertEqual(set(codes), {grpc.StatusCode.INVALID_ARGUMENT})
                self.assert_ended(made, batch, 200)
        self.assertEqual(honest.errors, [])
        self.await_at_most(lambda: "reason=invalid" not in server.tail(), False, "the log of it")

    def test_invalid_requests_count_as_what_was_built_of_them(self):
        server = self.serve()
        right = kv_messages.batch_of_empty_puts(b"%d" % number for number in range(1_023))
        wrong_at_last = right + kv_messages.field(1, b"\x08\x07" + kv_messages.field(2, b"k"))
        calls = 2_000
        self.assertLess(calls * len(wrong_at_last), 32 * MIB, "too few bytes to be ended for them")
        with raw_client.channel(server.server) as made:
            self.assert_ended(made, wrong_at_last, calls)

    def assert_ended(self, made, batch, calls):
        for _ in range(calls):
            code = raw_client.code_of(made, "BatchWrite", batch)
            if code == grpc.StatusCode.UNAVAILABLE:
                return
            self.assertEqual(code, grpc.StatusCode.INVALID_ARGUMENT)
        self.fail(f"{calls} invalid batches were heard out")

    def test_a_batch_that_is_no_message(self):
        server = self.serve()
        with raw_client.channel(server.server) as made:
            for method in ("BatchWrite", "BatchGet"):
                for message in (b"\xff" * 100, b"\x0a\x05", b"\x02\x00", b"\x7b"):
                    with self.subTest(method=method, message=message), \
                            self.assertRaises(grpc.RpcError) as caught:
                        raw_client.call(made, method, message)
                    self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
                    details = dict(caught.exception.trailing_metadata())["grpc-status-details-bin"]
                    self.assertIn(b"NO_MESSAGE", details)

    def test_unknown_fields_pin_nothing(self):
        unknown = b"\x78\x01" * 2_600_000
        for method, message in (("Get", kv_messages.get(b"k")),
                                ("Put", kv_messages.put(b"k", b"v"))):
            with self.subTest(method=method):
                self.leave_nothing(f"unknown fields of {method}", method, message + unknown,
                                   grpc.StatusCode.OK)

    # --- greedy clients ---

    def served_beside(self, server, attack, seconds=4):
        """An honest client is never refused during attack(), and is fast enough."""
        alone = self.quiet_rate(server)
        with contextlib.ExitStack() as stack:
            attack(stack)
            with raw_client.HonestClient(server.server) as honest:
                time.sleep(seconds)
            print(f"beside the attack: {honest}")
            self.assertEqual(honest.errors[:3], [], f"{len(honest.errors)} refusals")
            # This machine may have other work, too; an unserved client has no rate at all.
            self.assertGreater(honest.rate(), alone.rate() / 30)
        with raw_client.HonestClient(server.server) as after:
            time.sleep(1)
        print(f"after it: {after}")
        self.assertEqual(after.errors[:3], [])

    def unread(self, server, stack, connections, method, message, calls):
        """Calls on each of some connections that open no window for their answers."""
        for _ in range(connections):
            client = stack.enter_context(raw_client.Http2Client(server.server, window=0))
            for _ in range(calls):
                client.request(method, message)

    def test_scans_that_nobody_reads_keep_nobody_out(self):
        server = self.serve(max_inflight_size="32MiB")
        self.fill(server, 20, MIB)
        self.served_beside(server,
                           lambda stack: self.unread(server, stack, 4, "Scan", b"", 300))

    def test_gets_that_nobody_takes_keep_nobody_out(self):
        server = self.serve()
        self.fill(server, 1, 100)
        message = kv_messages.get(b"fill/000000")
        self.served_beside(server,
                           lambda stack: self.unread(server, stack, 10, "Get", message, 1000))

    def test_many_calls_in_hand_do_not_hold_up_one(self):
        server = self.serve()
        self.fill(server, 4000, 100)
        # In processes of their own: they would hold up this one, too.
        context = multiprocessing.get_context("spawn")
        stop = context.Event()

        def attack(stack):
            for number in range(2):
                busy = context.Process(target=keep_in_hand, args=(server.server, number, stop))
                busy.start()
                stack.callback(busy.join)
            stack.callback(stop.set)
            time.sleep(1)

        self.served_beside(server, attack)

    def test_a_small_scan_goes_before_the_rest_of_large_ones(self):
        server = self.serve()
        self.fill(server, 4000, 1000)
        with contextlib.ExitStack() as stack:
            whole = stack.enter_context(raw_client.Http2Client(server.server, window=2**31 - 1))
            whole.open_window()
            small = stack.enter_context(raw_client.channel(server.server))
            ask = small.unary_stream(kv_messages.SERVICE + "Scan")
            one_item = b"\x20\x01"  # limit: 1
            list(ask(one_item, timeout=raw_client.SECONDS))
            for _ in range(600):
                whole.request("Scan", b"")
            taking = threading.Thread(target=lambda: taken.append(whole.discard(4)))
            taken = []
            waits = []
            taking.start()
            while taking.is_alive() and len(waits) < 100:
                began = time.monotonic()
                list(ask(one_item, timeout=raw_client.SECONDS))
                waits.append(time.monotonic() - began)
                time.sleep(0.005)
            taking.join()
        waits = [1000 * wait for wait in sorted(waits)]
        print(f"small scans beside 600 whole ones ({taken[0] // MIB} MiB taken): median "
              f"{waits[len(waits) // 2]:.1f} ms, worst {waits[-1]:.1f} ms of {len(waits)}")
        # All requests queued before it took three seconds.
        self.assertLess(waits[-1], 1000)

    # --- what inflates ---

    def test_compressed_requests_are_refused_before_they_inflate(self):
        server = self.serve()
        for port, method in ((server.server, kv_messages.SERVICE + "Put"),
                             (server.admin, "/lodgekv.v1.AdminService/Status")):
            for algorithm in (grpc.Compression.Gzip, grpc.Compression.Deflate):
                with self.subTest(port=port, algorithm=algorithm):
                    self.bomb(server, port, method, algorithm)

    def bomb(self, server, port, method, algorithm):
        before = server.memory("VmHWM")
        with raw_client.channel(port, **{"grpc.max_send_message_length": -1}) as made:
            send = made.unary_unary(method)
            with self.assertRaises(grpc.RpcError) as caught:
                send(kv_messages.put(b"k", bytes(256 * MIB)), compression=algorithm,
                     timeout=raw_client.SECONDS)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED,
                         caught.exception.details())
        peak = server.memory("VmHWM")
        print(f"a bomb of 256 MiB: peak {before // MIB} MiB before, {peak // MIB} MiB after")
        self.assertLess(peak, before + 32 * MIB)


if __name__ == "__main__":
    system_test.main()

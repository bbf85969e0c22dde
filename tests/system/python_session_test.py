"""Sessions of the Python client: what is sent, what is answered, and how they end."""

import concurrent.futures
import datetime
import gc
import sys
import threading
import time
import traceback
import warnings

import grpc

import daemon
import metrics_page
import python_client
import system_test
from python_client import SECONDS, lodgekv
from lodgekv._messages import v1

UTC = datetime.timezone.utc


def scripted_session(script):
    return python_client.scripted_server({"Session": grpc.stream_stream_rpc_method_handler(
        script, v1.SessionRequest.FromString, v1.SessionResponse.SerializeToString)})


def answer_to(request):
    return v1.SessionResponse(id=request.id,
                              results=[v1.OperationResult() for _ in request.operations])


def answering_after(go_on):
    """Answers everything once it is set."""
    def script(requests, _):
        for request in requests:
            go_on.wait(SECONDS)
            yield answer_to(request)
    return script


class SessionTest(python_client.PythonClientTest):
    def test_messages_are_answered_in_order(self):
        client = self.serve()
        answered, futures = [], []
        with client.session() as session:
            for number in range(500):
                key = b"%d" % (number % 7)
                future = session.send([lodgekv.Get(key), lodgekv.Put(key, b"%d" % number)])
                future.add_done_callback(lambda _, number=number: answered.append(number))
                futures.append(future)
        self.assertEqual(answered, list(range(500)))
        versions = [0] * 7
        for number, future in enumerate(futures):
            read, written = future.result(0)
            before = b"%d" % (number - 7) if number >= 7 else None
            self.assertEqual((read.error, read.found, read.value, read.version),
                             (None, number >= 7, before, versions[number % 7]))
            self.assertEqual((written.error, written.value), (None, None))
            versions[number % 7] = written.version
        with self.assertRaises(ValueError):
            session.send([lodgekv.Get(b"0")])
        session.finish()

    def test_results_of_each_kind(self):
        client = self.serve()
        with client.session() as session:
            put, read, deleted, missing = session.send([
                lodgekv.Put(b"k", b"v", ttl=100), lodgekv.Get(b"k"), lodgekv.Delete(b"k"),
                lodgekv.Get(b"k")]).result(SECONDS)
        self.assertEqual((read.found, read.value, read.version), (True, b"v", put.version))
        self.assertGreater(read.expire_time, datetime.datetime.now(UTC))
        self.assertEqual(deleted, lodgekv.SessionResult(None, found=True))
        self.assertEqual(missing, lodgekv.SessionResult(None))

    def test_an_operation_that_fails_ends_nothing(self):
        client = self.serve()
        client.put(b"k", b"v")
        taken = lodgekv.Put(b"k", b"w", if_absent=True)
        with client.session() as session:
            failed, done = session.send([taken, lodgekv.Put(b"a", b"1")]).result(SECONDS)
            atomic = session.send([lodgekv.Put(b"b", b"2"), taken], atomic=True)
            refused = session.send([lodgekv.Get(b"")])
            last = session.send([lodgekv.Get(b"a"), lodgekv.Get(b"b"), lodgekv.Get(b"k")])
        self.assertIsInstance(failed.error, lodgekv.ConditionFailedError)
        self.assertEqual(failed.error.info.metadata["found"], "true")
        self.assertIsNone(done.error)
        self.assertIsInstance(atomic.exception(0), lodgekv.ConditionFailedError)
        self.assertIsInstance(refused.exception(0), lodgekv.InvalidArgumentError)
        self.assertEqual([result.value for result in last.result(0)], [b"1", None, b"v"])

    def test_several_threads(self):
        """With few messages unanswered at a time, so that they wait for each other."""
        client = self.serve()
        with client.session(unanswered=2) as session, \
                concurrent.futures.ThreadPoolExecutor(8) as pool:
            def write(thread):
                return [session.send([lodgekv.Put(b"%d/%d" % (thread, number), b"v")])
                        for number in range(50)]
            sent = [future for futures in pool.map(write, range(8)) for future in futures]
        self.assertTrue(all(future.result(0)[0].error is None for future in sent))
        self.assertEqual(len(list(client.scan())), 400)

    def test_what_is_sent_waits_for_what_is_unanswered(self):
        """The server answers nothing until it is told to."""
        go_on = threading.Event()
        with scripted_session(answering_after(go_on)) as target:
            session = self.connect(target).session(unanswered=3)
            sent = []
            sender = threading.Thread(target=lambda: sent.extend(
                session.send([lodgekv.Get(b"k")]) for _ in range(10)))
            sender.start()
            time.sleep(0.2)
            self.assertLessEqual(len(sent), 3)
            go_on.set()
            sender.join()
            session.finish()
            self.assertEqual([len(future.result(0)) for future in sent], [1] * 10)

    def test_the_exception_of_the_block_is_not_hidden(self):
        with scripted_session(lambda requests, _: iter(())) as target:
            with self.assertRaises(ZeroDivisionError), self.connect(target).session():
                raise ZeroDivisionError

    # --- its end ---

    def test_a_server_that_shuts_down(self):
        session = self.serve().session()
        session.send([lodgekv.Put(b"k", b"v")]).result(SECONDS)
        self.assertEqual(self.server.stop(), 0)
        with self.assertRaises(lodgekv.UnavailableError) as caught:
            session.finish()
        self.assertEqual(caught.exception.reason, "DRAINING")
        self.assertFalse(caught.exception.write_is_unknown)
        self.assertGreater(caught.exception.info.retry_after, datetime.timedelta())

    def test_a_server_that_is_killed(self):
        client = self.serve()
        session = client.session()
        session.send([lodgekv.Put(b"k", b"v")]).result(SECONDS)
        self.pause()
        unanswered = [session.send([lodgekv.Get(b"k")]) for _ in range(3)]
        self.server.kill()
        for future in unanswered:
            error = future.exception(SECONDS)
            self.assertIsInstance(error, lodgekv.UnavailableError)
            self.assertTrue(error.write_is_unknown)
        with self.assertRaises(lodgekv.UnavailableError):
            session.send([lodgekv.Get(b"k")])

    def test_a_client_that_is_closed(self):
        client = self.serve()
        session = client.session()
        session.send([lodgekv.Put(b"k", b"v")]).result(SECONDS)
        client.close()
        with self.assertRaises(lodgekv.CancelledError):
            session.finish()

    def test_an_end_without_a_reason_leaves_writes_in_doubt(self):
        """Whatever its code is."""
        def script(_, context):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the message is too large")
        with scripted_session(script) as target:
            session = self.connect(target).session()
            with self.assertRaises(lodgekv.ResourceExhaustedError) as caught:
                session.finish()
        self.assertTrue(caught.exception.write_is_unknown)

    def test_answers_that_do_not_fit(self):
        def another_id(requests, _):
            yield v1.SessionResponse(id=next(requests).id + 1)

        def no_results(requests, _):
            yield v1.SessionResponse(id=next(requests).id)

        def no_answer(requests, _):
            next(requests)
            yield from ()
        for script, words in ((another_id, "answered message 2 instead of 1"),
                              (no_results, "1 operations of a message with 0 results"),
                              (no_answer, "ended the session before")):
            with self.subTest(script=script.__name__), scripted_session(script) as target:
                session = self.connect(target).session()
                future = session.send([lodgekv.Put(b"k", b"v")])
                with self.assertRaisesRegex(lodgekv.LodgeKVError, words) as caught:
                    session.finish()
                self.assertIs(caught.exception.code, grpc.StatusCode.UNKNOWN)
                self.assertEqual(str(future.exception(0)), str(caught.exception))
                self.assertTrue(caught.exception.write_is_unknown)

    def test_errors_do_not_keep_the_frames_of_all_who_met_them(self):
        def script(_, context):
            context.abort(grpc.StatusCode.UNKNOWN, "the end")
        with scripted_session(script) as target:
            session = self.connect(target).session()
            lengths = set()
            for _ in range(5):
                with self.assertRaises(lodgekv.LodgeKVError) as caught:
                    session.finish()
                lengths.add(len(traceback.extract_tb(caught.exception.__traceback__)))
                with self.assertRaises(lodgekv.LodgeKVError):
                    session.send([lodgekv.Get(b"k")])
            self.assertEqual(len(lengths), 1)

    def test_a_callback_that_ends_its_thread(self):
        """Nobody waits for ever, and what is in doubt is said to be."""
        go_on = threading.Event()
        with scripted_session(answering_after(go_on)) as target:
            session = self.connect(target).session()
            futures = [session.send([lodgekv.Put(b"k", b"v")]) for _ in range(3)]
            futures[0].add_done_callback(lambda _: sys.exit("a callback"))
            go_on.set()
            self.assertTrue(futures[0].result(SECONDS))
            for future in futures[1:]:
                self.assertTrue(future.exception(SECONDS).write_is_unknown)
            with self.assertRaisesRegex(lodgekv.LodgeKVError, "a callback"):
                session.finish()

    # --- unfinished ones ---

    def await_true(self, condition):
        deadline = time.monotonic() + SECONDS
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_a_dropped_session_ends_when_it_is_answered(self):
        """Neither its stream nor its thread stays; its futures do not keep it."""
        go_on, ended = threading.Event(), threading.Event()

        def script(requests, context):
            context.add_callback(ended.set)
            yield from answering_after(go_on)(requests, context)
        with scripted_session(script) as target:
            client = self.connect(target)
            before = set(threading.enumerate())
            session = client.session()
            futures = [session.send([lodgekv.Get(b"k")] * 2) for _ in range(3)]
            with self.assertWarnsRegex(ResourceWarning, "was not finished"):
                del session
                gc.collect()
            self.assertFalse(ended.wait(0.1))
            go_on.set()
            self.assertEqual([len(future.result(SECONDS)) for future in futures], [2] * 3)
            self.assertTrue(ended.wait(SECONDS))
            self.await_true(lambda: not any(thread.name == "lodgekv-session" for thread
                                            in set(threading.enumerate()) - before))

    def test_a_session_that_only_its_callbacks_know_ends_with_them(self):
        """On the session's own thread, which must not wait for itself."""
        ended = threading.Event()

        def script(requests, context):
            context.add_callback(ended.set)
            for request in requests:
                yield answer_to(request)
        with scripted_session(script) as target, warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            session = self.connect(target).session()
            answered = threading.Event()
            future = session.send([lodgekv.Get(b"k")])
            future.add_done_callback(lambda _, session=session: answered.set())
            del session, future
            self.assertTrue(answered.wait(SECONDS))
            self.assertTrue(ended.wait(SECONDS))

    def test_a_dropped_client_and_its_session_leave_no_connection(self):
        metrics = f"127.0.0.1:{daemon.free_port()}"
        self.serve(metrics_listen=metrics)

        def connections():
            return metrics_page.read(metrics).value("lodgekv_connections", port="data")
        before = connections()
        client = lodgekv.Client(self.server.server)
        session = client.session()
        session.send([lodgekv.Put(b"k", b"v")]).result(SECONDS)
        self.assertEqual(connections(), before + 1)
        with self.assertWarns(ResourceWarning):
            del client, session
            gc.collect()
        self.await_true(lambda: connections() == before)

    def test_nothing_is_said_of_a_session_that_has_ended(self):
        def script(_, context):
            context.abort(grpc.StatusCode.UNKNOWN, "the end")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            client = self.serve()
            with client.session() as session:
                session.send([lodgekv.Put(b"k", b"v")])
            with scripted_session(script) as target:
                session = self.connect(target).session()
                with self.assertRaises(lodgekv.LodgeKVError):
                    while True:
                        session.send([lodgekv.Get(b"k")])
                del session
                gc.collect()
        self.assertEqual([str(warning.message) for warning in caught
                          if "lodgekv" in str(warning.message)], [])

    def test_a_program_that_finishes_no_session_ends(self):
        self.serve()
        code = ("import lodgekv\n"
                f"session = lodgekv.Client('{self.server.server}').session()\n"
                "print(session.send([lodgekv.Get(b'k')]).result()[0].found)")
        outcome = daemon.run(sys.executable, "-B", "-c", code,
                             env=daemon.environment(PYTHONPATH=python_client.PACKAGE))
        self.assertEqual((outcome.returncode, outcome.stdout), (0, b"False\n"), outcome.stderr)


if __name__ == "__main__":
    system_test.main()

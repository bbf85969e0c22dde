"""A session: a stream of gRPC, which a thread of gRPC writes to, and one of its own reads from.

INVARIANTS
- A message is in _unanswered from before it is written until its answer has been received, in the
  order written. Once _ended is set none is added.
- No future is completed while _condition is held.
- The threads hold the _Stream alone, never the Session: so a Session that is dropped unfinished is
  collected, and has its stream end.
"""

from __future__ import annotations

import collections
import queue
import threading
import traceback
import warnings
from concurrent.futures import Future
from typing import Any, Callable, Deque, Iterable, Iterator, List, Optional, Tuple

import grpc

from lodgekv._errors import LodgeKVError, copy_of, error_of_call, error_of_status, make_error
from lodgekv._messages import v1
from lodgekv._operations import Get, Operation, SessionResult, session_result_of, set_operation


class Session:
    """A stream of messages of operations, for throughput: no message waits for the answer to the
    one before it, and the server lets what has arrived together share its fences or its sync.

    Thread-safe. Messages have an order, that of their sends, and are answered in it. Operations on
    one key take effect in that order, within a message and from one to the next; those on different
    keys in any order. A write is durable when the future of its message has a result without an
    error for it.

    Use it as a context manager, which finishes it. One that is dropped unfinished is a
    ResourceWarning: it ends by itself once what was sent is answered, and if that fails only the
    futures say so.
    """

    def __init__(self, open_stream: Callable[[Iterator[Any]], Any], unanswered: int) -> None:
        self._stream = _Stream(open_stream, unanswered)

    def send(self, operations: Iterable[Operation], *,
             atomic: bool = False) -> Future[List[SessionResult]]:
        """Sends a message; the future has its results, results[i] belonging to operations[i].

        Unless the message is atomic each operation succeeds or fails by itself, with an error in
        its own result, and a key may occur more than once. Atomic: all writes or none, also across
        a crash; no Gets then, and each key once. If the message is refused as a whole, or gets no
        answer since the session ends before, the future has that error.

        Waits while the server receives no more, since too much of the session is unanswered
        (kv.proto), or the session's own limit is reached. Raises the error with which the session
        has ended, or ValueError if it was finished; then the message was not sent, whatever
        `write_is_unknown` says of the error.

        Futures are completed by the session's own thread, one after another; what is added to one
        by add_done_callback runs there, and must not call the session. They cannot be cancelled.
        """
        request = v1.SessionRequest(atomic=atomic)
        gets = []
        for operation in operations:
            set_operation(operation, request.operations.add())
            gets.append(isinstance(operation, Get))
        return self._stream.send(request, gets)

    def finish(self) -> None:
        """Ends the session: waits until all messages are answered, and raises the error with which
        the session ended if not all of them were. May be called again."""
        self._stream.finish()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: Optional[type], *_: object) -> None:
        try:
            self.finish()
        except LodgeKVError:
            if kind is None:
                raise

    def __del__(self, warn: Callable[..., None] = warnings.warn) -> None:
        stream = getattr(self, "_stream", None)  # None: it could not be opened
        if stream is not None and stream.abandon():
            warn(f"{self!r} was not finished", ResourceWarning, source=self)


class _Stream:
    """What the threads of a session hold of it."""

    def __init__(self, open_stream: Callable[[Iterator[Any]], Any], unanswered: int) -> None:
        self._most_unanswered = max(1, unanswered)
        self._condition = threading.Condition()
        # At most one message, and None behind the last.
        self._outgoing: queue.SimpleQueue[Optional[Any]] = queue.SimpleQueue()
        # For each message its future, and of its operations which are Gets.
        self._unanswered: Deque[Tuple[Future[List[SessionResult]], List[bool]]] = (
            collections.deque())
        self._last_sent_id = 0
        self._finishing = False
        self._ended = False
        self._error: Optional[LodgeKVError] = None
        self._last_answered_id = 0  # the receiver's
        self._call = open_stream(self._take_outgoing())
        self._receiver = threading.Thread(target=self._receive, name="lodgekv-session",
                                          daemon=True)
        self._receiver.start()

    def send(self, request: Any, gets: List[bool]) -> Future[List[SessionResult]]:
        answer: Future[List[SessionResult]] = Future()
        answer.set_running_or_notify_cancel()
        with self._condition:
            self._condition.wait_for(self._has_room_or_ends)
            if self._error is not None:
                raise copy_of(self._error)
            if self._finishing:
                raise ValueError("the session is finished")
            self._last_sent_id += 1
            request.id = self._last_sent_id
            self._unanswered.append((answer, gets))
            self._outgoing.put(request)
        return answer

    def finish(self) -> None:
        with self._condition:
            self._finishing = True
            self._condition.notify_all()
        self._outgoing.put(None)
        self._receiver.join()
        if self._error is not None:
            raise copy_of(self._error)

    def abandon(self) -> bool:
        """Sends no more, without waiting. Whether it was neither finished nor at its end.

        By the garbage collector, which may run in any thread at any place, also where that thread
        has _condition: put() of a SimpleQueue, unlike all else here, is made for that.
        """
        self._outgoing.put(None)
        return not (self._finishing or self._ended)

    def _has_room_or_ends(self) -> bool:
        has_room = self._outgoing.empty() and len(self._unanswered) < self._most_unanswered
        return has_room or self._finishing or self._ended

    def _take_outgoing(self) -> Iterator[Any]:
        """What gRPC's thread writes. It takes a message when HTTP/2's flow control has let the one
        before it through."""
        while True:
            request = self._outgoing.get()
            with self._condition:
                if request is None:
                    self._finishing = True
                self._condition.notify_all()
            if request is None:
                return
            yield request

    def _receive(self) -> None:
        error: Optional[LodgeKVError] = None
        try:
            for response in self._call:
                error = self._deliver(response)
                if error is not None:
                    break
        except grpc.RpcError as failure:
            error = error_of_call(failure, in_session=True)
        except BaseException as failure:  # of a callback, or for lack of memory
            error = _unknown(f"the session's thread ended: {failure!r}")
            error.__cause__ = failure
            raise
        finally:
            if error is not None:
                self._call.cancel()
            self._end(error)

    def _deliver(self, response: Any) -> Optional[LodgeKVError]:
        """An error: the answer is none to the oldest message, which leaves in doubt what became of
        any."""
        with self._condition:
            if not self._unanswered or response.id != self._last_answered_id + 1:
                return _unknown(f"the server answered message {response.id} instead of "
                                f"{self._last_answered_id + 1}")
            answer, gets = self._unanswered[0]
            if response.error.code == 0 and len(response.results) != len(gets):
                return _unknown(f"the server answered {len(gets)} operations of a message with "
                                f"{len(response.results)} results")
            refused = error_of_status(response.error) if response.error.code != 0 else None
            results = [session_result_of(result, is_get)
                       for result, is_get in zip(response.results, gets)]
            self._unanswered.popleft()
            self._condition.notify_all()
        self._last_answered_id += 1
        if refused is not None:
            answer.set_exception(refused)
        else:
            answer.set_result(results)
        return None

    def _end(self, error: Optional[LodgeKVError]) -> None:
        with self._condition:
            if error is None and (self._unanswered or not self._finishing):
                error = _unknown("the server ended the session before all was sent and answered")
            self._error = error
            self._ended = True
            unanswered, self._unanswered = self._unanswered, collections.deque()
            self._condition.notify_all()
        self._outgoing.put(None)
        for answer, _ in unanswered:
            assert error is not None  # since there are any
            try:
                answer.set_exception(copy_of(error))
            except BaseException:  # of a callback: the others are told all the same
                traceback.print_exc()


def _unknown(message: str) -> LodgeKVError:
    return make_error(grpc.StatusCode.UNKNOWN, message)

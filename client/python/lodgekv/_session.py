"""A session: a stream of gRPC, which a thread of gRPC writes to, and one of its own reads from.

INVARIANTS
- A message is in _unanswered from before it is written until its answer has been received, in the
  order written. Once _ended is set none is added.
- No future is completed while _condition is held.
"""

from __future__ import annotations

import collections
import threading
import traceback
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

    Use it as a context manager, which finishes it.
    """

    def __init__(self, open_stream: Callable[[Iterator[Any]], Any], unanswered: int) -> None:
        self._most_unanswered = max(1, unanswered)
        self._condition = threading.Condition()
        self._outgoing: Optional[Any] = None
        # For each message its future, and of its operations which are Gets.
        self._unanswered: Deque[Tuple[Future[List[SessionResult]], List[bool]]] = (
            collections.deque())
        self._last_sent_id = 0
        self._finishing = False
        self._ended = False
        self._error: Optional[LodgeKVError] = None
        self._last_answered_id = 0  # the receiver's
        self._stream = open_stream(self._take_outgoing())
        self._receiver = threading.Thread(target=self._receive, name="lodgekv-session",
                                          daemon=True)
        self._receiver.start()

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
            self._outgoing = request
            self._condition.notify_all()
        return answer

    def finish(self) -> None:
        """Ends the session: waits until all messages are answered, and raises the error with which
        the session ended if not all of them were. May be called again."""
        with self._condition:
            self._finishing = True
            self._condition.notify_all()
        self._receiver.join()
        if self._error is not None:
            raise copy_of(self._error)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: Optional[type], *_: object) -> None:
        try:
            self.finish()
        except LodgeKVError:
            if kind is None:
                raise

    def _has_room_or_ends(self) -> bool:
        has_room = self._outgoing is None and len(self._unanswered) < self._most_unanswered
        return has_room or self._finishing or self._ended

    def _take_outgoing(self) -> Iterator[Any]:
        """What gRPC's thread writes. It takes a message when HTTP/2's flow control has let the one
        before it through."""
        while True:
            with self._condition:
                self._condition.wait_for(
                    lambda: self._outgoing is not None or self._finishing or self._ended)
                request, self._outgoing = self._outgoing, None
                self._condition.notify_all()
            if request is None:
                return
            yield request

    def _receive(self) -> None:
        error: Optional[LodgeKVError] = None
        try:
            for response in self._stream:
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
                self._stream.cancel()
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
        for answer, _ in unanswered:
            assert error is not None  # since there are any
            try:
                answer.set_exception(copy_of(error))
            except BaseException:  # of a callback: the others are told all the same
                traceback.print_exc()


def _unknown(message: str) -> LodgeKVError:
    return make_error(grpc.StatusCode.UNKNOWN, message)

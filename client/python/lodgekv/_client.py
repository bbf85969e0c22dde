"""The client of the service of keys and values."""

from __future__ import annotations

from typing import Any, Callable, Iterable, List, Optional

import grpc

from lodgekv._channel import Path, credentials_of, make_channel
from lodgekv._errors import error_of_call
from lodgekv._messages import v1
from lodgekv._operations import (BatchResult, Delete, GetResult, Put, Write, get_result_of,
                                 set_operation, set_write)
from lodgekv._scan import Scan
from lodgekv._session import Session
from lodgekv._units import Duration, to_seconds

DEFAULT_TARGET = "127.0.0.1:7411"
_SERVICE = "lodgekv.v1.KvService"


class Client:
    """A client of one server.

    Thread-safe: many threads may call its methods, and share one connection. Like every user of
    gRPC it does not survive a fork: a child process makes a client of its own.

    Keys and values are bytes, never str: nothing is assumed about their encoding, and a str is a
    TypeError. Durations are seconds, as a number, or a timedelta.

    A missing key is a normal answer. What fails raises a LodgeKVError. Nothing is ever retried:
    after an error whose `write_is_unknown` is true a write may or may not have been applied, and
    only the caller knows whether applying it twice is harmless; with every other error it was not
    applied. When a write returns, its effect survives any later crash of the server, and of the
    machine as far as the medium does (kv.proto, DURABILITY).

    It connects at the first call. close() ends its calls, scans and sessions; as a context manager
    it closes itself.
    """

    def __init__(self, target: str = DEFAULT_TARGET, *, timeout: Optional[Duration] = 30,
                 tls_ca: Optional[Path] = None, tls_cert: Optional[Path] = None,
                 tls_key: Optional[Path] = None, tls_server_name: Optional[str] = None,
                 credentials: Optional[grpc.ChannelCredentials] = None,
                 keepalive_time: Optional[Duration] = 30,
                 keepalive_timeout: Duration = 20) -> None:
        """
        target: host:port, [IPv6]:port or unix:/path.
        timeout: the longest wait for the answer to one call; None: no limit. Scans and sessions
            have their own.
        tls_ca: a file in PEM format with the certificate of the CA that issued the server's, read
            once, now. Without it, and without credentials, the connection is plaintext.
        tls_cert, tls_key: files with the client's own certificate and its key, if the server asks
            for one (mutual TLS).
        tls_server_name: the name to expect in the server's certificate. None: the host of target.
        credentials: gRPC's own, instead of the files.
        keepalive_time, keepalive_timeout: while a call is open and nothing arrives for
            keepalive_time, the server is pinged; if it does not answer within keepalive_timeout the
            call fails with UnavailableError. keepalive_time None: never pinged. A server closes
            connections that ping more often than every 5 seconds.
        """
        if credentials is not None and not (tls_ca is tls_cert is tls_key is None):
            raise ValueError("credentials and the files of TLS exclude each other")
        self._timeout = to_seconds(timeout)
        self._channel = make_channel(
            target, credentials or credentials_of(tls_ca, tls_cert, tls_key), tls_server_name,
            keepalive_time, keepalive_timeout)
        make = self._channel.unary_unary
        self._get = self._method(make, "Get")
        self._put = self._method(make, "Put")
        self._delete = self._method(make, "Delete")
        self._batch_get = self._method(make, "BatchGet")
        self._batch_write = self._method(make, "BatchWrite")
        self._scan = self._method(self._channel.unary_stream, "Scan")
        self._session = self._method(self._channel.stream_stream, "Session")

    def get(self, key: bytes) -> GetResult:
        """Reads one key. `value` is None if it is missing."""
        return get_result_of(self._call(self._get, v1.GetRequest(key=key)))

    def put(self, key: bytes, value: bytes, *, if_absent: bool = False, if_present: bool = False,
            if_version: Optional[int] = None, ttl: Optional[Duration] = None) -> int:
        """Writes one key. Returns the version of the new value, 0 in a pool without versions.

        if_absent, if_present, if_version: at most one of them, which must hold for the write to be
            applied: the key has no live value, it has one, its live value has this version (not 0).
            Else ConditionFailedError.
        ttl: time to live of the value, 1 millisecond or more. None: it never expires, and an
            earlier ttl of the key ends.
        """
        request = v1.PutRequest()
        set_write(Put(key, value, if_absent, if_present, if_version, ttl), request)
        return int(self._call(self._put, request).version)

    def delete(self, key: bytes, *, if_absent: bool = False, if_present: bool = False,
               if_version: Optional[int] = None) -> bool:
        """Deletes one key; the conditions are those of put. Returns whether there was a live
        value."""
        request = v1.DeleteRequest()
        set_write(Delete(key, if_absent, if_present, if_version), request)
        return bool(self._call(self._delete, request).found)

    def batch_get(self, keys: Iterable[bytes]) -> List[GetResult]:
        """Reads several keys, each at some moment of the call: results[i] belongs to keys[i]."""
        answer = self._call(self._batch_get, v1.BatchGetRequest(keys=keys))
        return [get_result_of(lookup) for lookup in answer.results]

    def batch_write(self, operations: Iterable[Write]) -> List[BatchResult]:
        """Applies all operations, lodgekv.Put and lodgekv.Delete, or none, also across a crash:
        results[i] belongs to operations[i]. Each key may occur once.

        If a condition does not hold nothing is applied: ConditionFailedError, whose
        info.metadata["operation"] is the index. For writes that need not be applied together use a
        session.
        """
        request = v1.BatchWriteRequest()
        for operation in operations:
            set_operation(operation, request.operations.add())
        answer = self._call(self._batch_write, request)
        return [BatchResult(result.found, result.version) for result in answer.results]

    def scan(self, *, start: bytes = b"", end: bytes = b"", prefix: bytes = b"",
             limit: Optional[int] = None, reverse: bool = False, keys_only: bool = False,
             continuation: bytes = b"", page_items: int = 0, page_bytes: int = 0,
             timeout: Optional[Duration] = None) -> Scan:
        """An iterator over the live keys of [start, end) that begin with prefix, in order; an empty
        bound does not restrict it. It is not a snapshot (kv.proto, Scan).

        limit: at most so many items. None or 0: all.
        reverse: in descending order.
        keys_only: leave out the values.
        continuation: of an earlier scan of the same range and direction: go on after that page.
        page_items, page_bytes: most that the server sends at once. 0: its own limits.
        timeout: from now to the last item, what is done with the items in between included.

        The server cancels a scan whose next page is not read for a minute, unless it is configured
        otherwise; `continuation` of the iterator says where to go on.
        """
        request = v1.ScanRequest(start=start, end=end, prefix=prefix, limit=limit, reverse=reverse,
                                 keys_only=keys_only, continuation=continuation,
                                 page_items=page_items, page_bytes=page_bytes)
        return Scan(self._scan(request, timeout=to_seconds(timeout)), continuation)

    def session(self, *, timeout: Optional[Duration] = None, unanswered: int = 4096) -> Session:
        """Opens a stream of messages of operations, for throughput.

        timeout: from now to the last answer.
        unanswered: messages that may be without an answer at a time, at least 1.
        """
        return Session(lambda requests: self._session(requests, timeout=to_seconds(timeout)),
                       unanswered)

    def close(self) -> None:
        """May be called again. Other methods raise ValueError afterwards."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def _method(make: Any, name: str) -> Any:
        return make(f"/{_SERVICE}/{name}",
                    request_serializer=getattr(v1, f"{name}Request").SerializeToString,
                    response_deserializer=getattr(v1, f"{name}Response").FromString)

    def _call(self, method: Callable[..., Any], request: Any) -> Any:
        try:
            return method(request, timeout=self._timeout)
        except grpc.RpcError as error:
            raise error_of_call(error) from error

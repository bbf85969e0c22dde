"""Errors: one class for each code that kv.proto lists, all of them LodgeKVError."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any, Dict, List, Optional, Tuple, Type

import grpc
from google.protobuf.message import DecodeError

from lodgekv._messages import rpc

_DETAILS_TRAILER = "grpc-status-details-bin"
_CODES = {code.value[0]: code for code in grpc.StatusCode}
_UNKNOWN_AFTER = {grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED,
                  grpc.StatusCode.UNKNOWN}


@dataclasses.dataclass(frozen=True)
class ErrorInfo:
    """The server's information about an error besides code and message."""

    # Such as CONDITION_FAILED or POOL_FULL (kv.proto, ERRORS); empty: the server gave none.
    reason: str = ""
    metadata: Dict[str, str] = dataclasses.field(default_factory=dict)
    # A field or limit, and its error.
    violations: List[Tuple[str, str]] = dataclasses.field(default_factory=list)
    # Nothing was done, and a retry makes sense after this time.
    retry_after: Optional[datetime.timedelta] = None


class LodgeKVError(Exception):
    """A call that failed: gRPC's code, the message, and what else the server said of it.

    Of a code that kv.proto does not name it is of this class itself. The error of gRPC, if there
    was one, is its __cause__.
    """

    def __init__(self, code: grpc.StatusCode, message: str, info: ErrorInfo = ErrorInfo(),
                 session_broken: bool = False) -> None:
        super().__init__(code, message, info, session_broken)
        self.code = code
        self.message = message
        self.info = info
        self._session_broken = session_broken

    @property
    def reason(self) -> str:
        """info.reason."""
        return self.info.reason

    @property
    def write_is_unknown(self) -> bool:
        """Whether a write that failed with this error may nevertheless have been applied.

        Repeat such a write only if doing it twice is harmless; a condition makes it so.
        """
        if self.code is grpc.StatusCode.UNAVAILABLE:
            return self.reason in ("", "MEDIUM_FAILED", "POOL_GONE")
        if self.code is grpc.StatusCode.INTERNAL and not self.reason:
            return True  # of gRPC itself: the stream was reset
        return self._session_broken or self.code in _UNKNOWN_AFTER

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


class InvalidArgumentError(LodgeKVError):
    """A request that can never succeed: `info.violations` names the field."""


class ConditionFailedError(LodgeKVError):
    """The condition of a write did not hold, and nothing was applied. `info.metadata` has what was
    found: "found", "version" and, of a batch, "operation"."""


class ResourceExhaustedError(LodgeKVError):
    """Something has reached its limit: nothing was done. With `info.retry_after` it is worth to try
    again."""


class PoolFullError(ResourceExhaustedError):
    """The pool has no room. Reads, scans and deletes go on."""


class UnavailableError(LodgeKVError):
    """The server is not reached (no `reason`), or does not serve now (`reason` says why)."""


class DataLossError(LodgeKVError):
    """The medium holds a damaged record for the key."""


class UnimplementedError(LodgeKVError):
    """The server does not serve this call."""


class DeadlineExceededError(LodgeKVError):
    """The timeout passed."""


class CancelledError(LodgeKVError):
    """The call was cancelled: by the client's close, or by the server since its answers were not
    read in time."""


_BY_REASON: Dict[str, Type[LodgeKVError]] = {
    "CONDITION_FAILED": ConditionFailedError,
    "POOL_FULL": PoolFullError,
}
_BY_CODE: Dict[grpc.StatusCode, Type[LodgeKVError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgumentError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhaustedError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.DATA_LOSS: DataLossError,
    grpc.StatusCode.UNIMPLEMENTED: UnimplementedError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceededError,
    grpc.StatusCode.CANCELLED: CancelledError,
}


def make_error(code: grpc.StatusCode, message: str, info: ErrorInfo = ErrorInfo(),
               session_broken: bool = False) -> LodgeKVError:
    kind = _BY_REASON.get(info.reason) or _BY_CODE.get(code, LodgeKVError)
    return kind(code, message, info, session_broken)


def copy_of(error: LodgeKVError) -> LodgeKVError:
    """To be raised: an exception that is raised again and again keeps the frames of all raises."""
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy


def error_of_status(status: Any) -> LodgeKVError:
    """Of a google.rpc.Status, as an answer of a session bears it."""
    code = _CODES.get(status.code, grpc.StatusCode.UNKNOWN)
    return make_error(code, status.message, _info_of(status))


def error_of_call(error: Any, in_session: bool = False) -> LodgeKVError:
    """Of a call that ended with this grpc.RpcError. What ends a session without a reason says
    nothing of the messages that were sent before, whatever its code."""
    status = rpc.Status()
    for name, value in error.trailing_metadata() or ():
        if name == _DETAILS_TRAILER:
            try:
                status.ParseFromString(value)
            except DecodeError:
                status.Clear()
    info = _info_of(status)
    return make_error(error.code(), error.details() or "", info, in_session and not info.reason)


def _info_of(status: Any) -> ErrorInfo:
    found: Dict[str, Any] = {}
    for detail in status.details:
        kind = getattr(rpc, detail.TypeName().rpartition(".")[2], None)
        message = kind() if kind is not None else None
        if message is not None and detail.Unpack(message):
            found.update(_fields_of(message))
    return ErrorInfo(**found)


def _fields_of(detail: Any) -> Dict[str, Any]:
    if isinstance(detail, rpc.ErrorInfo):
        return {"reason": detail.reason, "metadata": dict(detail.metadata)}
    if isinstance(detail, rpc.BadRequest):
        return {"violations": [(violation.field, violation.description)
                               for violation in detail.field_violations]}
    if isinstance(detail, (rpc.QuotaFailure, rpc.PreconditionFailure)):
        return {"violations": [(violation.subject, violation.description)
                               for violation in detail.violations]}
    if isinstance(detail, rpc.RetryInfo):
        return {"retry_after": detail.retry_delay.ToTimedelta()}
    return {}

"""What may be asked in batches and sessions, and what the answers say."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any, Optional, Union

from lodgekv._errors import LodgeKVError, error_of_status
from lodgekv._messages import v1
from lodgekv._units import Duration, to_timedelta

# Of a write: at most one of if_absent (the key has no live value), if_present (it has one) and
# if_version (the live value has this version, not 0).


@dataclasses.dataclass(frozen=True)
class Put:
    key: bytes
    value: bytes
    if_absent: bool = False
    if_present: bool = False
    if_version: Optional[int] = None
    # Time to live of the value, in seconds or as a timedelta; None: it never expires.
    ttl: Optional[Duration] = None


@dataclasses.dataclass(frozen=True)
class Delete:
    key: bytes
    if_absent: bool = False
    if_present: bool = False
    if_version: Optional[int] = None


@dataclasses.dataclass(frozen=True)
class Get:
    """In a session only."""

    key: bytes


Write = Union[Put, Delete]
Operation = Union[Put, Delete, Get]


@dataclasses.dataclass(frozen=True)
class GetResult:
    found: bool
    # None: not found.
    value: Optional[bytes]
    # 0 in a pool without versions.
    version: int
    # With UTC as its time zone; None: never.
    expire_time: Optional[datetime.datetime]


@dataclasses.dataclass(frozen=True)
class BatchResult:
    """What one write of a batch did."""

    # For a Delete and a Put with a condition: there was a live value.
    found: bool
    # For a Put: the version of the new value.
    version: int


@dataclasses.dataclass(frozen=True)
class ScanItem:
    key: bytes
    # Empty with keys_only.
    value: bytes
    version: int
    expire_time: Optional[datetime.datetime]


@dataclasses.dataclass(frozen=True)
class SessionResult:
    """What one operation of a session did: of a Get as GetResult, of a write as BatchResult."""

    # None: done. Else this operation was not applied, and nothing else is set.
    error: Optional[LodgeKVError]
    found: bool = False
    value: Optional[bytes] = None
    version: int = 0
    expire_time: Optional[datetime.datetime] = None


def set_operation(operation: Operation, message: Any) -> None:
    """In an Operation."""
    if isinstance(operation, Get):
        message.kind = v1.OPERATION_KIND_GET
        message.key = operation.key
    elif isinstance(operation, Put):
        message.kind = v1.OPERATION_KIND_PUT
        set_write(operation, message)
    elif isinstance(operation, Delete):
        message.kind = v1.OPERATION_KIND_DELETE
        set_write(operation, message)
    else:
        raise TypeError(f"{operation!r} is none of lodgekv.Put, lodgekv.Delete and lodgekv.Get")


def set_write(write: Write, message: Any) -> None:
    """In a PutRequest, a DeleteRequest or an Operation."""
    message.key = write.key
    _set_condition(write, message)
    if isinstance(write, Put):
        message.value = write.value
        if write.ttl is not None:
            message.ttl.FromTimedelta(to_timedelta(write.ttl))


def _set_condition(write: Write, message: Any) -> None:
    if write.if_absent + write.if_present + (write.if_version is not None) > 1:
        raise ValueError("if_absent, if_present and if_version exclude each other")
    if write.if_absent:
        message.condition = v1.CONDITION_IF_ABSENT
    elif write.if_present:
        message.condition = v1.CONDITION_IF_PRESENT
    elif write.if_version is not None:
        message.condition = v1.CONDITION_IF_VERSION
        message.if_version = write.if_version


def expire_time_of(answer: Any) -> Optional[datetime.datetime]:
    if not answer.HasField("expire_time"):
        return None
    time: datetime.datetime = answer.expire_time.ToDatetime(tzinfo=datetime.timezone.utc)
    return time


def get_result_of(answer: Any) -> GetResult:
    """Of a GetResponse or a Lookup."""
    return GetResult(answer.found, answer.value if answer.found else None, answer.version,
                     expire_time_of(answer))


def session_result_of(result: Any, is_get: bool) -> SessionResult:
    if result.error.code != 0:
        return SessionResult(error_of_status(result.error))
    return SessionResult(None, result.found, result.value if is_get and result.found else None,
                         result.version, expire_time_of(result))

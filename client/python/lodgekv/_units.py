"""Durations: seconds, as a number, or a timedelta."""

from __future__ import annotations

import datetime
from typing import Optional, Union

Duration = Union[float, datetime.timedelta]


def to_timedelta(duration: Duration) -> datetime.timedelta:
    if isinstance(duration, datetime.timedelta):
        return duration
    return datetime.timedelta(seconds=duration)


def to_seconds(duration: Optional[Duration]) -> Optional[float]:
    """For gRPC's timeouts. None: no limit."""
    return None if duration is None else to_timedelta(duration).total_seconds()


def to_milliseconds(duration: Duration) -> int:
    return to_timedelta(duration) // datetime.timedelta(milliseconds=1)

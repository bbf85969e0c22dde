"""The Python client of LodgeKV, an ordered key-value server for persistent memory.

    with lodgekv.Client("127.0.0.1:7411") as client:
        client.put(b"hello", b"world")
        print(client.get(b"hello").value)

What the calls mean, with limits, errors and durability, is in proto/lodgekv/v1/kv.proto.
"""

from lodgekv._client import DEFAULT_TARGET, Client
from lodgekv._errors import (CancelledError, ConditionFailedError, DataLossError,
                             DeadlineExceededError, ErrorInfo, InvalidArgumentError, LodgeKVError,
                             PoolFullError, ResourceExhaustedError, UnavailableError,
                             UnimplementedError)
from lodgekv._operations import (BatchResult, Delete, Get, GetResult, Put, ScanItem,
                                 SessionResult)
from lodgekv._scan import Scan
from lodgekv._session import Session

__all__ = [
    "DEFAULT_TARGET", "BatchResult", "CancelledError", "Client", "ConditionFailedError",
    "DataLossError", "DeadlineExceededError", "Delete", "ErrorInfo", "Get", "GetResult",
    "InvalidArgumentError", "LodgeKVError", "PoolFullError", "Put", "ResourceExhaustedError",
    "Scan", "ScanItem", "Session", "SessionResult", "UnavailableError", "UnimplementedError",
]

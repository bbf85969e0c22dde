"""A scan that is under way."""

from __future__ import annotations

from typing import Any, Iterator

import grpc

from lodgekv._errors import error_of_call
from lodgekv._operations import ScanItem, expire_time_of


class Scan(Iterator[ScanItem]):
    """The items of Client.scan, in order, one page of them in memory at a time.

    For one thread at a time. Whoever does not read it to the end may close it, or use it as a
    context manager; else it ends when it is garbage.
    """

    def __init__(self, call: Any, continuation: bytes) -> None:
        self._call = call
        self._items: Iterator[Any] = iter(())
        self._after_page = continuation
        self._closed = False
        # Where another scan of the same range can go on after the last page all of whose items were
        # taken; empty: the range is finished, or no page was taken yet.
        self.continuation = continuation

    def __next__(self) -> ScanItem:
        while not self._closed:
            for item in self._items:
                return ScanItem(item.key, item.value, item.version, expire_time_of(item))
            self.continuation = self._after_page
            self._take_page()
        raise StopIteration

    def _take_page(self) -> None:
        try:
            page = next(self._call)
        except grpc.RpcError as error:
            raise error_of_call(error) from error
        self._items = iter(page.items)
        self._after_page = page.continuation

    def close(self) -> None:
        """Ends the scan: no more items come. May be called again."""
        self._closed = True
        self._call.cancel()

    def __enter__(self) -> Scan:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

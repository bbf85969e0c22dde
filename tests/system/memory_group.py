"""A memory cgroup, of version 2 or 1, in which a program runs and is killed when it takes more."""

import contextlib
import os
import pathlib
import time

ROOT = pathlib.Path("/sys/fs/cgroup")
REMOVE_SECONDS = 10


class Unavailable(Exception):
    """No cgroup can be created here."""


class MemoryGroup:
    def __init__(self, limit):
        version2 = (ROOT / "cgroup.controllers").exists()
        parent = ROOT if version2 else ROOT / "memory"
        self.path = parent / f"lodgekv-test-{os.getpid()}"
        try:
            if version2 and "memory" not in (ROOT / "cgroup.subtree_control").read_text().split():
                raise Unavailable("the memory controller is not given to groups")
            self.path.mkdir()
            self.write("memory.max" if version2 else "memory.limit_in_bytes", limit)
            if (self.path / "memory.swap.max").exists():
                self.write("memory.swap.max", 0)
        except OSError as error:
            with contextlib.suppress(OSError):
                self.path.rmdir()
            raise Unavailable(str(error)) from error

    def write(self, name, value):
        (self.path / name).write_text(str(value))

    def add_this_process(self):
        self.write("cgroup.procs", os.getpid())

    def remove(self):
        """When its processes have ended."""
        deadline = time.monotonic() + REMOVE_SECONDS
        while True:
            try:
                return self.path.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

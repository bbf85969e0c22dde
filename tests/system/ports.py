"""Free ports of 127.0.0.1 that no other test or benchmark of this machine is given meanwhile.

A port that is free when it is chosen may be taken before the program that it is for listens on it.
So each process has a block of ports of its own, below the kernel's range for outgoing connections.
A block is claimed by the name of an abstract Unix socket: those are of the same network namespace
as the ports, and the name is free again when the process ends, however it ends.
"""

import contextlib
import errno
import functools
import itertools
import os
import socket

FIRST, BLOCK, BLOCKS = 12_000, 60, 340
HOST = "127.0.0.1"
CLAIM = "\0lodgekv-test-ports-{}"


class NoPortError(Exception):
    pass


def free_port():
    for port in itertools.islice(_ports(), BLOCK):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            return port
    raise NoPortError(f"all {BLOCK} ports of this process on {HOST} are in use")


@functools.cache
def _ports():
    first = FIRST + _claim_block(os.getpid()) * BLOCK
    return itertools.cycle(range(first, first + BLOCK))


_claims = []  # open as long as the process lives


def _claim_block(start):
    """The number of a block that no running process has, the first one tried given by start."""
    for offset in range(BLOCKS):
        block = (start + offset) % BLOCKS
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(CLAIM.format(block))
        except OSError as error:
            claim.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            _claims.append(claim)
            return block
    raise NoPortError(f"all {BLOCKS} blocks of ports are claimed by running tests")

"""Keys, values and files of records as lodgectl reads and writes them, written a second time."""

import pathlib
import random
import subprocess
import zlib

WORDS = pathlib.Path("/usr/share/dict/words")


def escape(raw):
    """The escapes of lodgectl --help, independently of its code."""
    named = {0x5c: b"\\\\", 0x09: b"\\t", 0x0a: b"\\n", 0x0d: b"\\r"}
    if not any(byte in named or byte < 0x20 or byte == 0x7f for byte in raw):
        return raw
    return b"".join(named.get(byte) or (b"\\x%02x" % byte if byte < 0x20 or byte == 0x7f
                                        else bytes([byte])) for byte in raw)


def escape_key(key):
    """As it begins a line: no record begins with # or a byte order mark."""
    for first in (b"#", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"):
        if key.startswith(first):
            return b"".join(b"\\x%02x" % byte for byte in first) + escape(key[len(first):])
    return escape(key)


def value_of(key):
    """A value that tells whether it belongs to its key."""
    return b"%d %08x" % (len(key), zlib.crc32(key))


def line_of(key, value):
    return escape_key(key) + b"\t" + escape(value)


def write_lines(path, lines):
    path.write_bytes(b"".join(line + b"\n" for line in lines))


def read_lines(path):
    """The complete lines of a file that may end in the middle of one, or not exist yet."""
    if not path.exists():
        return []
    return path.read_bytes().split(b"\n")[:-1]


def size_of(path):
    return path.stat().st_size if path.exists() else 0


def real_keys():
    """The words of the dictionary and every path below /usr, sorted, each once."""
    words = WORDS.read_bytes().split(b"\n")
    paths = subprocess.run(["find", "/usr", "-xdev", "-print0"], stdout=subprocess.PIPE,
                           check=True).stdout.split(b"\0")
    return sorted(set(words + paths) - {b""})


def shuffled(items, seed):
    items = list(items)
    random.Random(seed).shuffle(items)
    return items

"""A pool file as bytes, to damage it on purpose. Offsets are those of docs/media_format.md."""

MAGIC = b"LodgeKV1"
IDENTITY_BYTES = 256
FORMAT_VERSION = slice(8, 12)
ENGINE = slice(32, 64)
CRC = slice(252, 256)
# Magic to the end of the second state slot.
HEADER_BYTES = 768


def crc32c(data):
    """Without the final inversion, as on the medium."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc


class PoolFile:
    def __init__(self, path):
        self.path = path
        self.original = path.read_bytes()
        self.header = self.original.index(MAGIC)

    def write(self, content):
        self.path.write_bytes(content)

    def restore(self):
        self.write(self.original)

    def flip(self, offset, bit):
        damaged = bytearray(self.original)
        damaged[offset] ^= 1 << bit
        self.write(damaged)

    def rewrite_identity(self, field, content):
        """Another value for a field, with the checksum that makes it believed."""
        changed = bytearray(self.original)
        identity = bytearray(changed[self.header:self.header + IDENTITY_BYTES])
        identity[field] = content.ljust(field.stop - field.start, b"\0")
        identity[CRC] = crc32c(identity[:CRC.start]).to_bytes(4, "little")
        changed[self.header:self.header + IDENTITY_BYTES] = identity
        self.write(changed)

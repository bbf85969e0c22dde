"""Requests of lodgekv.v1 as bytes of protobuf, for clients without stubs."""

SERVICE = "/lodgekv.v1.KvService/"
PUT_KIND = b"\x08\x01"  # of an operation of a batch


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, data):
    """One of bytes, or of a message."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def put(key, value):
    return field(1, key) + field(2, value)


def get(key):
    return field(1, key)


def batch_write(pairs):
    """One of puts."""
    return b"".join(field(1, PUT_KIND + field(2, key) + field(3, value))
                    for key, value in pairs)


def batch_of_empty_puts(keys):
    return b"".join(field(1, PUT_KIND + field(2, key)) for key in keys)


def batch_get(keys):
    return b"".join(field(1, key) for key in keys)

#!/usr/bin/env python3
"""tests/fuzz/make_corpus.py [FOLDER]: writes the seeds of the fuzz targets, corpus/TARGET/NAME.

What the bytes of an input mean stands at the foot of each target's source. No seed shows a planted
bug (fuzz_test.py looks): the target has to get there from them. Inputs that once found a defect are
kept beside them under other names, and stay as they are.
"""

import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent


# --- protobuf's wire format ---

def varint(number):
    number &= (1 << 64) - 1
    out = b""
    while number > 0x7f:
        out += bytes([number & 0x7f | 0x80])
        number >>= 7
    return out + bytes([number])


def number(field, value):
    return varint(field << 3) + varint(value)


def text(field, value):
    return varint(field << 3 | 2) + varint(len(value)) + value


def duration(seconds, nanos):
    return number(1, seconds) + number(2, nanos)


def operation(kind, key, value=b"", rest=b""):
    out = number(1, kind) + text(2, key)
    return out + (text(3, value) if value else b"") + rest


# --- one function for each target: name to bytes ---

def text_format():
    tsv, json, tsv_hex, json_hex = b"\0", b"\1", b"\2", b"\3"
    return {
        "tsv": tsv + b"key\tvalue\nsecond\tline\\n\n",
        "tsv_escapes": tsv + b"k\\n\\\\\tv\\x00\\r\\xff\n",
        "tsv_no_value": tsv + b"key\n\nkey\ta\tb\n",
        "hex": tsv_hex + b"6b6579\t00ff7f\n",
        "json": json + b'{"key":"k","value":"v"}\n',
        "json_hex": json_hex + b'{"key_hex":"6bff","value":"caf\xc3\xa9\\u0001"}\n',
        "json_expiry": json + b'{"key":"k","expire_unix_ms":1700000000123}\n',
        "json_wrong": json + b'{"key":"k","valeu":[1,{"a":null}]}\n{"key":"k","key_hex":"6b"}\n',
    }


def config():
    return {
        "empty": b"",
        "usual": b"pool: /tmp/p\nlisten: 127.0.0.1:0\nthreads: 4\nmax_value_size: 64KiB\n",
        "units": b"pool_size: 1GiB\ntls_refresh: 5 min\nslow_request: 100ms\ndrain_grace: 0\n",
        "options": b"engine: lodgetree\nengine_options: {log_entries: 16, 'a': \"b\"}\n",
        "choices": b"key_format: fixed64\ndurability: process\nlog_level: debug\n"
                   b"allow_plaintext: yes\n",
        "page_alone": b"scan_page_items: 98765\n",
        "page": b"scan_page_items: 98765\nscan_page_size: 4KiB\n",
        "quoted": b"pool: \"a\\tb\\u00e9\"\nlisten: '[::1]:1'\nmetrics_listen: off\n",
        "wrong": b"max_kye_size: 12\n",
        "twice": b"threads: 1\nthreads: 2\n",
        "anchors": b"pool: &a x\njournal_path: *a\n",
        "not_a_map": b"- a\n- b: [c, d]\n",
        "broken": b"pool: [a\n  listen: }\n",
    }


def requests():
    put, delete, write, get, session, one = 0, 4, 8, 12, 16, 20
    fixed, inline = 1, 2
    plain = text(1, b"key") + text(2, b"value")
    batch = (text(1, operation(1, b"a", b"1")) + text(1, operation(2, b"b"))
             + text(1, operation(1, b"c", b"3", number(4, 1))))
    mixed = (text(2, operation(1, b"a", b"1")) + text(2, operation(3, b"a"))
             + text(2, operation(2, b"a")))
    return {
        "put": bytes([put]) + plain,
        "put_ttl": bytes([put]) + plain + text(5, duration(0, 3_000_000)),
        "put_ttl_far": bytes([put]) + plain + text(5, duration(251702300799, 0)),
        "put_if_version": bytes([put]) + plain + number(3, 3) + number(4, 77),
        "put_fixed64": bytes([put | fixed]) + text(1, b"12345678") + text(2, b"abcdefgh"),
        "put_too_long": bytes([put]) + text(1, b"k" * 13) + text(2, b"v" * 25),
        "put_inline_version": bytes([put | inline]) + plain + number(3, 3) + number(4, 1),
        "delete": bytes([delete]) + text(1, b"key") + number(2, 2),
        "delete_unknown": bytes([delete]) + text(1, b"key") + number(2, 9) + number(15, 1),
        "write": bytes([write]) + batch,
        "write_twice": bytes([write]) + batch + text(1, operation(2, b"a")),
        "write_ttl": bytes([write]) + text(1, operation(1, b"a", b"v", text(6, duration(9, 0)))),
        "write_fields": bytes([write]) + text(1, operation(1, b"a", b"v", number(15, 1) * 31)),
        "write_group": bytes([write]) + b"\x7b" + batch + b"\x7c" + batch + b"\x7b",
        "write_bad_kind": bytes([write]) + text(1, operation(3, b"a")),
        "get": bytes([get]) + text(1, b"a") + text(1, b"bb") + number(2, 1),
        "session": bytes([session]) + number(1, 300) + mixed + number(4, 1),
        "session_atomic": bytes([session]) + number(1, 1) + text(2, operation(1, b"a", b"1"))
                          + text(2, operation(2, b"b")) + number(3, 1),
        "session_atomic_get": bytes([session]) + mixed + number(3, 1),
        "session_get_value": bytes([session | fixed]) + text(2, operation(3, b"12345678", b"v")),
        "get_one": bytes([one]) + text(1, b"key") + number(2, 1) + number(15, 1),
        "get_many": bytes([get | fixed]) + text(1, b"12345678") * 6,
    }


def continuation():
    whole, fixed = b"\0", b"\1"
    pages = number(8, 2)
    return {
        "all": whole,
        "pages": whole + text(1, b"a") + text(2, b"b") + pages,
        "reverse": whole + text(2, b"b") + number(5, 1) + pages,
        "prefix": whole + text(3, b"ab") + number(6, 1),
        "limit": whole + number(4, 3) + number(9, 5) + text(2, b"b\xff"),
        "token": whole + text(2, b"c") + text(7, b"ab") + pages,
        "token_outside": whole + text(1, b"b") + text(7, b"ab"),
        "token_of_none": whole + text(7, b"aaa") + number(8, 1) + text(2, b"b"),
        "fixed": fixed + pages,
        "fixed_short": fixed + text(1, b"ab") + text(2, b"b") + number(5, 1),
        "fixed_token": fixed + text(7, b"abacabac") + number(8, 1),
    }


def counted(value):
    return bytes([len(value)]) + value


def codec():
    def pairs(kind, key_a, key_b, value_a=b"v", value_b=b"w", flip=7):
        return bytes([kind, flip]) + b"".join(
            counted(part) for part in (key_a, key_b, value_a, value_b))
    small = 0b111 << 61 | 3 << 57 | 1 << 54 | 0x76 << 40
    return {
        "records": pairs(0, b"abc", b"abd"),
        "records_long": pairs(0, b"common_x", b"common_y and more", b"v" * 40),
        "records_prefix": pairs(0, b"abcdefga", b"abcdefgb", flip=77),
        "records_same": pairs(0, b"same key of both", b"same key of both"),
        "inline": pairs(1, b"abc", b"abd"),
        "inline_raw": pairs(1, b"abcdefgh", b"abcdefgi", b"12345678", b"\xc012345678"),
        "inline_and_record": pairs(1, b"ab", b"ab\0", b"", b"too long for a word"),
        "slot": b"\2" + struct.pack("<QQ", int.from_bytes(b"key\0\0\0\0\0", "big"), small),
        "slot_raw": b"\2" + struct.pack("<QQ", 1 << 56, 2 << 56),
        "fixed": b"\3" + struct.pack("<QQ", 77, 1 | 8 << 4),
        "fixed_ends": b"\3" + struct.pack("<QQ", (1 << 64) - 1, 0),
    }


def record():
    def written(key, value, expiry=0, place=0, damage=0):
        return (b"\0" + (9).to_bytes(6, "little") + expiry.to_bytes(6, "little")
                + place.to_bytes(2, "little") + bytes([damage]) + counted(key) + value)
    header = struct.pack("<QQQ", 3 << 32, 9, 2)
    return {
        "small": written(b"k", b"v"),
        "empty_value": written(b"key", b""),
        "expiry": written(b"key", b"value", 1_900_000_000_000),
        "large": written(b"k" * 100, b"v" * 300),
        "damaged_checksum": written(b"key", b"value", place=1, damage=1),
        "damaged_length": written(b"key", b"value", place=4, damage=0x80),
        "damaged_key": written(b"key", b"value", place=25, damage=0x20),
        "damaged_value_length": written(b"key", b"value", place=17, damage=0x40),
        "found": b"\1" + struct.pack("<I", 8192) + header + b"key" + b"va",
        "found_nothing": b"\1" + struct.pack("<I", 16),
    }


def pool_header():
    def changed(kind, *changes, available=b""):
        return bytes([kind]) + available + b"".join(struct.pack("<HB", *c) for c in changes)
    sealed, mended, short = 1, 2, 4
    return {
        "sound": changed(0),
        "sealed": changed(sealed),
        "magic": changed(0, (0, 1)),
        "identity": changed(sealed, (40, 8)),
        "version": changed(mended, (8, 3)),
        "chunk_bytes": changed(mended, (81, 0x30)),
        "fewer_rows": changed(mended, (96, 2)),
        "state_word": changed(0, (256, 1)),
        "journal_word": changed(sealed, (320, 1)),
        "unflushed_word": changed(sealed, (384, 1)),
        "checkpoint_mark": changed(sealed, (448, 1)),
        "slot": changed(sealed, (600, 1)),
        "sequence": changed(mended, (520, 0xff), (648, 0xff)),
        "row": changed(0, (2832, 1)),
        "row_content": changed(sealed, (2840, 1)),
        "nearly_truncated": changed(short, available=struct.pack("<H", 3400)),
    }


def append_log():
    def log(*kinds, flip=0):
        return struct.pack("<H", flip) + bytes(kinds)
    whole = 1

    def group(count):
        return [whole | left << 4 for left in reversed(range(count))]
    return {
        "empty": log(),
        "singles": log(*group(1) * 5),
        "groups": log(*group(3), *group(1), *group(4)),
        "full": log(*group(12)),
        "torn_first": log(*group(2), 0, *group(2)[1:]),
        "hole": log(*group(1), 0, *group(1), *group(1)),
        "torn_tail": log(*group(2), *group(1), 0),
        "flip_header": log(*group(2), flip=3),
        "flip_entry": log(*group(1) * 4, flip=(64 + 40) * 8),
    }


def journal():
    good, foreign, free = 1, 3, 0x80

    def line(kind, sequence, at, lines=1, words=0xff):
        return bytes([kind, sequence, at, lines, words])

    def revoked(sequence, at, count):
        return bytes([good, sequence, at, 0, 0, count])

    def anything(kind, sequence, payload):
        return bytes([kind | free, sequence]) + counted(payload)
    return {
        "empty": b"\0",
        "groups": b"\0" + line(good, 1, 2) + line(good, 2, 3, 2) + line(good, 3, 0, 1, 0x0f),
        "gap": b"\0" + line(good, 1, 2) + line(good, 3, 2),
        "checkpoint": b"\2" + line(good, 1, 2) + line(good, 2, 4),
        "two_checkpoints": b"\x32" + line(good, 3, 2) + line(good, 4, 4) + line(good, 2, 1),
        "foreign": b"\2" + line(foreign, 1, 2) + line(good, 2, 4),
        "revoked": b"\0" + line(good, 1, 2) + revoked(2, 1, 4) + line(good, 3, 2),
        "beyond": b"\0" + line(good, 1, 15, 2),
        "short": b"\0" + anything(good, 1, b"\1\2\3"),
        "holes": b"\0\0" + line(good, 2, 2) + b"\0\0" + line(good, 1, 9),
    }


TARGETS = (text_format, config, requests, continuation, codec, record, pool_header, append_log,
           journal)


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "corpus"
    for target in TARGETS:
        place = folder / target.__name__
        place.mkdir(parents=True, exist_ok=True)
        for name, content in target().items():
            (place / name).write_bytes(content)


if __name__ == "__main__":
    main()

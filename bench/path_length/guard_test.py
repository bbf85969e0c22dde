#!/usr/bin/env python3
"""guard_test.py PATH_LENGTH ENGINE: no path of the engine is longer than path_lengths.json says,
none has become shorter without being recorded, and docs/benchmarks.md shows what is recorded.

Another compiler than the recorded one makes other code: then nothing is compared (exit code 77).
"""

import sys
import unittest

import path_lengths

PROGRAM, ENGINE = "", ""
SKIPPED = 77
HOW = "scripts/path_lengths --write records what is counted now"


class Guard(unittest.TestCase):
    def test_lengths_are_as_recorded(self):
        record = path_lengths.read_record()
        for key_format in path_lengths.KEY_FORMATS:
            with self.subTest(key_format=key_format):
                counted = path_lengths.count(PROGRAM, ENGINE, key_format)
                recorded = path_lengths.recorded_lengths(record, ENGINE, key_format)
                wrong = list(path_lengths.compare(recorded, counted))
                self.assertFalse(wrong, "\n".join(["", *wrong, HOW]))

    def test_the_page_shows_the_record(self):
        page = path_lengths.PAGE.read_text()
        self.assertEqual(page, path_lengths.page_with(page, path_lengths.read_record()), HOW)


class Reading(unittest.TestCase):
    """What the guard is made of, on small examples."""

    FILE = """events: Ir Dr Dw
fn=(1) CallCounter::Call()
cfn=(2) void (anonymous namespace)::Counted<0ul>(FunctionRef)
calls=10 4
20 50 0 10
cfn=(3) void (anonymous namespace)::Counted<3ul>(FunctionRef)
calls=4 4
21 60 9 8
cfn=(3)
calls=6 4
22 90 9 12

fn=(3)
30 12 1 1
cfn=(4) Read()
calls=10 9
31 138 17 19
cfn=(5) Quiet()
calls=1 9
31
"""
    ROWS = [{"slot": 0, "path": "nothing", "way": "", "calls": 10, "operations": 10},
            {"slot": 3, "path": "read", "way": "", "calls": 10, "operations": 20}]

    def test_slots(self):
        self.assertEqual(path_lengths.read_slots(self.FILE), {0: (10, 50, 10), 3: (10, 150, 20)})

    def test_lengths_are_less_what_counting_costs(self):
        lengths = path_lengths.lengths_of(self.ROWS, path_lengths.read_slots(self.FILE))
        self.assertEqual(lengths, {"read": path_lengths.Length(5.0, 0.5)})

    def test_ways_and_their_mean(self):
        rows = [self.ROWS[0],
                {"slot": 3, "path": "put", "way": "", "calls": 30, "operations": 30},
                {"slot": 4, "path": "put", "way": "flush", "calls": 10, "operations": 10}]
        slots = {0: (10, 0, 0), 3: (30, 300, 30), 4: (10, 500, 90)}
        self.assertEqual(path_lengths.lengths_of(rows, slots),
                         {"put": path_lengths.Length(20.0, 3.0),
                          "put, short": path_lengths.Length(10.0, 1.0),
                          "put, flush": path_lengths.Length(50.0, 9.0)})

    def test_what_is_not_as_recorded(self):
        def compare(old, new):
            return list(path_lengths.compare({"read": path_lengths.Length(*old)},
                                             {"read": path_lengths.Length(*new)}))
        self.assertEqual(compare((300, 40), (300, 40)), [])
        self.assertEqual(compare((300, 40), (318, 45)), [])
        self.assertIn("10% more", compare((300, 40), (330, 40))[0])
        self.assertIn("stores", compare((300, 40), (300, 47))[0])
        self.assertIn("record the gain", compare((300, 40), (260, 40))[0])
        self.assertIn("only counted", list(path_lengths.compare(
            {}, {"read": path_lengths.Length(1, 1)}))[0])


def skip_reason():
    recorded = path_lengths.read_record()["compiler"]
    built, _ = path_lengths.describe(PROGRAM)
    return "" if built == recorded else f"built with {built}, recorded with {recorded}"


if __name__ == "__main__":
    ENGINE = sys.argv.pop(2)
    PROGRAM = sys.argv.pop(1)
    if reason := skip_reason():
        print("path lengths are not compared:", reason)
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)

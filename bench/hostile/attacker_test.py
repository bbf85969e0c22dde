#!/usr/bin/env python3
"""Attacks that do not do what they say: that measure.py says so of each."""

import contextlib
import dataclasses
import sys
import time
import unittest
import unittest.mock

import measure  # which finds those of tests/system

import attacker
import attacks
import daemon
import http2_client


def does_nothing(target, deadline):
    """As one whose connections all fail."""
    return attacks.Load(0, "0 MB over 0 connections")


def waits_for_a_window(target, deadline):
    """Which no server opens before there is need."""
    calls = 0
    with contextlib.suppress(OSError), http2_client.Client(target.data, seconds=1) as one:
        if one.wait(lambda: one.windows[0] > http2_client.FIRST_WINDOW, 1):
            calls += 1
    return attacks.Load(calls, f"{calls} calls")


def is_let_nothing_through(target, deadline):
    with http2_client.Client(target.data, attacks.SOURCE, seconds=1) as one:
        one.windows[0] = -(1 << 40)
        one.request(attacks.SERVICE + "Get", b"")
    return attacks.Load(1, "1 call")


def never_ends(target, deadline):
    while True:
        time.sleep(1)


def counts_what_it_did_not_do(target, deadline):
    return attacks.Load(1_000, "1,000 connections")


class AttackerTest(unittest.TestCase):
    def assert_fault(self, run, fault):
        attack = attacks.Attack(run, attacks.accepted("admin"), over_tls=False)
        extent = dataclasses.replace(measure.brief(), attempts=1)
        with (daemon.folder() as workdir,
              unittest.mock.patch.dict(attacks.ATTACKS, {"broken": attack})):
            self.assertEqual(measure.measure("broken", extent, workdir)["faults"], [fault])

    def test_it_does_nothing(self):
        self.assert_fault(does_nothing, "the attack did nothing")
        self.assert_fault(waits_for_a_window, "the attack did nothing")

    def test_it_dies(self):
        self.assert_fault(is_let_nothing_through, "the attack's process died")

    def test_it_does_not_end(self):
        with unittest.mock.patch.object(attacker, "GRACE_SECONDS", 1):
            self.assert_fault(never_ends, "the attack did not end")

    def test_it_counts_what_it_did_not_do(self):
        self.assert_fault(counts_what_it_did_not_do, "the server saw nothing of it: "
                          "connections_accepted_total{port=\"admin\"} is as before")


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=2)

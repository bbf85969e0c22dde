"""Each attack of bench/hostile, for a moment: that it does what it says. No time is checked."""

import pathlib
import subprocess
import sys
import unittest

import certificates
import system_test

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEASURE = ROOT / "bench" / "hostile" / "measure.py"
RELIABILITY = ROOT / "docs" / "reliability.md"


def attacks_of(table):
    """The first column of the rows that follow the head, which may stand within other text."""
    lines = iter(table.splitlines())
    next(line for line in lines if line.startswith("| Attack |"))
    next(lines)  # the rule
    names = []
    while (line := next(lines, "")).startswith("| "):
        names.append(line.split(" | ")[0].removeprefix("| "))
    return names


@unittest.skipUnless(certificates.have_openssl(), "no openssl command to make certificates")
class HostileAttacksTest(system_test.SystemTest):
    def measure(self, *words):
        """What it prints. With this test it ends, too, its daemon and files."""
        outcome = subprocess.run(
            ["setpriv", "--pdeathsig", "TERM", sys.executable, "-B", MEASURE, "--brief", *words],
            capture_output=True, text=True, check=False)
        print(outcome.stdout, flush=True)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return outcome.stdout

    def test_every_attack_attacks_and_is_in_the_documentation(self):
        names = attacks_of(self.measure())
        self.assertGreater(len(names), 20)
        self.assertEqual(names, attacks_of(RELIABILITY.read_text()))


if __name__ == "__main__":
    system_test.main()

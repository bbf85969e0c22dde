"""What the system tests share: a base class, and a main that runs a file's tests."""

import os
import signal
import sys
import unittest

import daemon

SEED = int(os.environ.get("LODGEKV_SEED", "1"))


class SystemTest(unittest.TestCase):
    maxDiff = 4000

    def folder(self, parent=None):
        return self.enterContext(daemon.folder(parent))

    def daemon(self, workdir, **flags):
        """Serves until the test ends, or until the test ends it."""
        return self.enterContext(daemon.Daemon(workdir, **flags))

    def for_each_engine(self, story):
        """Calls story(engine) for each persistent engine of this build."""
        for engine in daemon.persistent_engines():
            with self.subTest(engine=engine):
                story(engine)

    def assert_same_lines(self, actual, expected, message):
        """As assertEqual, without drawing a difference of a hundred thousand lines."""
        if actual == expected:
            return
        missing = sorted(set(expected) - set(actual))[:5]
        surplus = sorted(set(actual) - set(expected))[:5]
        self.fail(f"{message}: {len(actual)} lines instead of {len(expected)}; missing {missing}, "
                  f"surplus {surplus}" + ("" if missing or surplus else "; the order differs"))

    def assert_error(self, outcome, code, *parts):
        """Ended with this code and one line on stderr that holds all parts."""
        text = outcome.stderr.decode(errors="replace")
        self.assertEqual(outcome.returncode, code, text)
        self.assertEqual(text.count("\n"), 1, text)
        for part in parts:
            self.assertIn(part, text)


class Result(unittest.TextTestResult):
    """SIGTERM ends the test that runs, as an exception does, so that folders vanish and daemons
    end; and no other is begun."""

    def startTestRun(self):
        super().startTestRun()
        signal.signal(signal.SIGTERM, self.end)

    def end(self, *_):
        self.failfast = True
        self.stop()
        sys.exit("ended by SIGTERM")


def main():
    print(f"seed {SEED} (LODGEKV_SEED)", flush=True)
    runner = unittest.TextTestRunner(verbosity=2, resultclass=Result)
    unittest.main(argv=sys.argv, testRunner=runner)

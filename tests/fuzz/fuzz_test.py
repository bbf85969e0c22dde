#!/usr/bin/env python3
"""tests/fuzz/fuzz_test.py PROGRAM CORPUS RUNS: runs one fuzz target for so long as tests may take.

The code as it is: the corpus and RUNS executions find nothing. With the planted bug
(fuzz_target.h): the corpus alone finds nothing, RUNS executions find it, and the input that is kept
fails again with the bug and passes without. So a target that checks nothing fails its own test.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

TRIES = 5  # to find the planted bug, each with a seed of its own
FIRST_SEED = int(os.environ.get("LODGEKV_TEST_SEED", "1"))


class Target:
    def __init__(self, program, corpus, folder):
        self.program, self.corpus, self.folder = program, corpus, folder

    def run(self, *arguments, planted=False, inputs=None):
        """The exit code and all output. What libFuzzer adds to a corpus goes to our folder."""
        found = tempfile.mkdtemp(dir=self.folder)
        environment = dict(os.environ)
        environment.pop("LODGEKV_PLANTED_BUG", None)
        if planted:
            environment["LODGEKV_PLANTED_BUG"] = "1"
        command = [self.program, *arguments, "-max_len=512", f"-artifact_prefix={self.folder}/",
                   *([str(path) for path in inputs] if inputs else [found, self.corpus])]
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, text=True,
                              errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False)
        return done.returncode, done.stdout

    def artifacts(self):
        return sorted(pathlib.Path(self.folder).glob("crash-*"))


def fail(what, output):
    sys.exit(f"{output[-4000:]}\nfuzz_test: {what}")


def check_clean(target, runs):
    code, output = target.run(f"-runs={runs}", f"-seed={FIRST_SEED}")
    if code != 0:
        for path in target.artifacts():
            output += f"\nthe input {path.name}: {path.read_bytes()!r}"
        fail("the code as it is has a defect, or a target is wrong", output)


def check_planted(target, runs):
    code, output = target.run("-runs=0", planted=True)
    if code != 0:
        fail("the corpus itself shows the planted bug: nothing is left to be found", output)
    for seed in range(FIRST_SEED, FIRST_SEED + TRIES):
        code, output = target.run(f"-runs={runs}", f"-seed={seed}", planted=True)
        if code != 0:
            break
    else:
        fail(f"the planted bug was not found in {TRIES} times {runs} executions", output)
    told = re.search(r"does not hold: .*", output)
    if told is None:
        fail("what ended the target is not one of its own checks", output)
    kept = target.artifacts()
    if len(kept) != 1:
        fail("the input that found the planted bug was not kept", output)
    code, output = target.run(planted=True, inputs=kept)
    if code == 0:
        fail("the input that was kept does not show the planted bug again", output)
    code, output = target.run(inputs=kept)
    if code != 0:
        fail("the input that was kept fails without the planted bug, too", output)
    print(f"planted bug found with seed {seed}: {told.group()}")


def main():
    program, corpus, runs = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        target = Target(program, corpus, folder)
        check_clean(target, int(runs))
        check_planted(target, int(runs))


if __name__ == "__main__":
    main()

"""The first commands of the README, as they stand there."""

import pathlib
import re

import daemon
import system_test

FIRST_COMMANDS = "lodgectl put hello world && build/release/bin/lodgectl get hello"
README = pathlib.Path(__file__).resolve().parents[2] / "README.md"


class FirstStepsTest(system_test.SystemTest):
    def test_put_and_get_as_in_the_readme(self):
        commands = re.findall(r"^ +build/release/bin/(lodgectl .+)$", README.read_text(), re.M)
        self.assertEqual(commands, [FIRST_COMMANDS])
        self.for_each_engine(lambda engine: self.run_command(engine, commands[0]))

    def run_command(self, engine, command):
        workdir = self.folder()
        server = self.daemon(workdir, engine=engine, pool=workdir / "pool",
                             pool_size=64 * daemon.MIB)
        (workdir / "build").mkdir()
        (workdir / "build/release").mkdir()
        (workdir / "build/release/bin").symlink_to(daemon.BIN)
        outcome = daemon.run("sh", "-c", "build/release/bin/" + command, cwd=workdir,
                             env=daemon.environment(LODGEKV_SERVER=server.server))
        self.assertEqual(outcome.stderr, b"")
        self.assertRegex(outcome.stdout, rb"^ok(, version \d+)?\nworld\n$")
        self.assertEqual(outcome.returncode, 0)


if __name__ == "__main__":
    system_test.main()

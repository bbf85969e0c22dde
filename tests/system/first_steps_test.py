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

    def test_the_python_of_the_readme(self):
        """As it stands there, but for the address; without pip, with Debian's packages."""
        python = "/usr/bin/python3"  # where Debian's packages are
        if daemon.run(python, "-c", "import grpc, google.protobuf").returncode != 0:
            self.skipTest("not installed: python3-grpcio and python3-protobuf")
        text = README.read_text()
        self.assertIn("`PYTHONPATH=client/python`", text)
        code = text.split("```python\n")[1].split("```")[0]
        server = self.daemon(self.folder(), engine="dram")
        outcome = daemon.run(python, "-B", "-c", code.replace("127.0.0.1:7411", server.server),
                             cwd=README.parent,
                             env=daemon.environment(PYTHONPATH="client/python"))
        self.assertEqual((outcome.stdout, outcome.stderr), (b"b'world'\n", b""))
        self.assertEqual(server.ask("get", "hello"), b"world\n")

    def test_make_run_and_make_up_serve_one_pool(self):
        config = (README.parent / "config/dev.yaml").read_text()
        stack = (README.parent / "deploy/local/stack").read_text()
        pool = re.search(r"^pool: (\S+)$", config, re.M).group(1)
        self.assertIn(f"pool=${{LODGEKV_STACK_POOL:-$root/{pool}}}\n", stack)

    def test_the_walk_through_a_crash(self):
        """Every command of it, in order, prints what the README says but for numbers."""
        section = README.read_text().split("\n## A walk through a crash\n")[1].split("\n## ")[0]
        steps = re.findall(r"^    \$ (.+)\n((?:    [^$\s].*\n)*)", section, re.M)
        self.assertGreater(len(steps), 7)
        workdir = self.checkout()
        metrics = f"127.0.0.1:{daemon.free_port()}"
        server = self.daemon(workdir, pool=workdir / "pool", pool_size=64 * daemon.MIB,
                             metrics_listen=metrics)
        server.ask("put", "hello", "world")
        for command, expected in steps:
            with self.subTest(command=command):
                printed = self.run_step(workdir, server, command.replace("127.0.0.1:7413", metrics))
                self.assertEqual(self.without_numbers(printed),
                                 self.without_numbers(re.sub("^    ", "", expected, flags=re.M)))

    def run_step(self, workdir, server, command):
        if command == "make run":
            server.start()
            return ""
        if command == "kill -KILL $(pidof -s lodgekvd)":
            server.kill()
            return ""
        outcome = daemon.run("sh", "-c", command, cwd=workdir, env=daemon.environment(
            LODGEKV_SERVER=server.server, LODGEKV_ADMIN=server.admin))
        return (outcome.stdout + outcome.stderr).decode()

    @staticmethod
    def without_numbers(text):
        return re.sub(r"\b\d+(\.\d+)*", "N", text)

    def checkout(self):
        """A folder where the programs are where `make run` puts them."""
        workdir = self.folder()
        (workdir / "build/release").mkdir(parents=True)
        (workdir / "build/release/bin").symlink_to(daemon.BIN)
        return workdir

    def run_command(self, engine, command):
        workdir = self.checkout()
        server = self.daemon(workdir, engine=engine, pool=workdir / "pool",
                             pool_size=64 * daemon.MIB)
        outcome = daemon.run("sh", "-c", "build/release/bin/" + command, cwd=workdir,
                             env=daemon.environment(LODGEKV_SERVER=server.server))
        self.assertEqual(outcome.stderr, b"")
        self.assertRegex(outcome.stdout, rb"^ok(, version \d+)?\nworld\n$")
        self.assertEqual(outcome.returncode, 0)


if __name__ == "__main__":
    system_test.main()

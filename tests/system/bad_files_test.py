"""Paths that are no readable files: directories, pipes without a writer, endless devices, files
without read permission. Each gives one line and an exit code, and none stops a running daemon."""

import os
import signal
import subprocess
import time

import certificates
import daemon
import system_test

PATIENCE = 10  # seconds
EMPTY = "engine: dram\n"


class BadFilesTest(system_test.SystemTest):
    def setUp(self):
        self.workdir = self.folder()
        self.directory = self.workdir / "directory"
        self.directory.mkdir()
        self.pipe = self.workdir / "pipe"
        os.mkfifo(self.pipe)
        self.config = self.workdir / "lodgekv.yaml"

    # --- the daemon ---

    def check_config(self, *flags, **options):
        return daemon.run(daemon.LODGEKVD, "--check-config", *flags, env=daemon.environment(),
                          **options)

    def test_config_at_the_start(self):
        for path, reason in ((self.directory, "is a directory"),
                             (self.workdir / "none", "No such file"),
                             ("/dev/zero", "is larger than 1048576 bytes")):
            with self.subTest(path=path):
                self.assert_error(self.check_config("--config", path), 2,
                                  f"config file '{path}' ", reason)
        self.config.write_text("[" * 100_000)
        self.assert_error(self.check_config("--config", self.config), 2, str(self.config))

    def test_config_may_be_a_pipe_at_the_start(self):
        command = f"{daemon.LODGEKVD} --check-config --config <(sleep 0.1; echo 'engine: dram')"
        outcome = daemon.run("bash", "-c", command, env=daemon.environment())
        self.assertEqual((outcome.returncode, outcome.stderr), (0, b""))

    def test_a_config_that_never_comes_can_be_given_up(self):
        process = subprocess.Popen([daemon.LODGEKVD, "--config", self.pipe],
                                   preexec_fn=daemon.die_with_parent)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        time.sleep(0.2)
        process.terminate()
        self.assertEqual(process.wait(PATIENCE), -signal.SIGTERM)

    def test_config_at_a_reload(self):
        """Whatever is at its path by then, the daemon keeps serving and handles SIGTERM."""
        self.config.write_text(EMPTY)
        server = self.daemon(self.workdir, config=self.config)
        server.ask("put", "k", "v")
        for place in (self.directory, self.pipe, "/dev/zero", self.workdir / "none"):
            with self.subTest(place=place):
                self.config.unlink()
                self.config.symlink_to(place)
                self.reload(server)
                self.assertEqual(server.ask("get", "k"), b"v\n")
        self.config.unlink()
        self.config.write_text("[" * 100_000)
        self.reload(server)
        self.assertEqual(server.stop(), 0)

    def reload(self, server):
        before = server.log.read_text().count("reload refused")
        server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + PATIENCE
        while server.log.read_text().count("reload refused") == before:
            self.assertIsNone(server.process.poll(), server.tail())
            self.assertLess(time.monotonic(), deadline, server.tail())
            time.sleep(0.02)

    def test_tls_files(self):
        authority = certificates.Authority(self.workdir)
        pair = authority.issue("server")
        flags = {"tls-cert-file": pair.cert, "tls-key-file": pair.key,
                 "tls-ca-file": authority.cert}
        for flag in flags:
            for path, reason in ((self.directory, "is a directory"),
                                 (self.pipe, "is a pipe or a device"),
                                 ("/dev/zero", "is a pipe or a device")):
                with self.subTest(flag=flag, path=path):
                    words = [f"--{name}={value}" for name, value in (flags | {flag: path}).items()]
                    self.assert_error(self.check_config("--engine", "dram", *words), 2,
                                      flag.replace("-", "_"), reason)

    # --- lodgectl ---

    def ctl(self, *words):
        return daemon.run(daemon.LODGECTL, "--server", "127.0.0.1:1", *words,
                          env=daemon.environment())

    def test_values(self):
        for path, reason in ((self.directory, "is a directory"),
                             ("/dev/zero", "is larger than 67108864 bytes"),
                             ("/proc/self/mem", "cannot be read: Input/output error")):
            with self.subTest(path=path):
                self.assert_error(self.ctl("put", "k", "--value-file", path), 2, str(path),
                                  reason)
        with open("/dev/zero", "rb") as endless:
            outcome = daemon.run(daemon.LODGECTL, "put", "k", "--value-file", "-", stdin=endless)
            self.assert_error(outcome, 2, "standard input is larger")

    def test_certificates(self):
        for path, reason in ((self.directory, "is a directory"),
                             ("/dev/zero", "is larger than 1048576 bytes")):
            with self.subTest(path=path):
                self.assert_error(self.ctl("--tls-ca", path, "get", "k"), 2, "--tls-ca", str(path),
                                  reason)


if __name__ == "__main__":
    system_test.main()

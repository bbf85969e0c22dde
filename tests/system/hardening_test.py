"""How the daemon and its environment are protected from each other: a log that nobody
reads, cores, keys that everybody may read, too few threads."""

import contextlib
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import threading
import time

import certificates
import daemon
import metrics_page
import system_test

PATIENCE = 10  # seconds
F_SETPIPE_SZ = 1031
STRANGER = 54_321  # a user who has nothing else running


class UnreadLogTest(system_test.SystemTest):
    """A log of many lines (the library's traces) into a pipe whose reader sleeps."""

    def setUp(self):
        workdir = self.folder()
        ours, theirs = os.pipe()
        fcntl.fcntl(theirs, F_SETPIPE_SZ, 4096)
        self.reader = self.enterContext(open(ours, "rb", buffering=0))
        self.metrics = f"127.0.0.1:{daemon.free_port()}"
        self.server = daemon.Daemon(workdir, engine="dram", log_level="debug",
                                    metrics_listen=self.metrics)
        self.server.server = f"127.0.0.1:{daemon.free_port()}"
        self.server.admin = f"127.0.0.1:{daemon.free_port()}"
        self.server.process = subprocess.Popen(
            self.server.command(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=theirs, preexec_fn=daemon.die_with_parent,
            env=daemon.environment(GRPC_VERBOSITY="DEBUG", GRPC_TRACE="all"))
        self.addCleanup(self.server.process.wait)
        self.addCleanup(self.server.process.kill)
        os.close(theirs)

    def dropped(self):
        return int(metrics_page.read(self.metrics)["lodgekv_log_lines_dropped_total"])

    def put_until_lines_are_dropped(self):
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                if self.dropped() > 0:
                    return
            self.assertLess(time.monotonic(), deadline, "no line was dropped")
            self.server.ctl("put", "k", "v", "--timeout", "5s")

    def test_puts_and_the_end_do_not_wait(self):
        self.put_until_lines_are_dropped()
        outcome = self.server.ctl("put", "k", "last", "--timeout", "5s")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.server.terminate()
        self.assertEqual(self.server.process.wait(PATIENCE), 0)

    def test_who_reads_again_is_told_what_is_missing(self):
        self.put_until_lines_are_dropped()
        text = b""

        def read():
            nonlocal text
            while piece := self.reader.read(65_536):
                text += piece

        reading = threading.Thread(target=read)
        reading.start()
        self.server.terminate()
        self.assertEqual(self.server.process.wait(PATIENCE), 0)
        reading.join()
        self.assertRegex(text, rb"\n\S+ warning +log lines were dropped, nobody read them "
                         rb"not_logged_before=[1-9]\d*\n")
        self.assertIn(b"pool closed cleanly\n", text)


class HardeningTest(system_test.SystemTest):
    def setUp(self):
        self.workdir = self.folder()

    # --- cores ---

    def leaves_core(self, **flags):
        def prepare():
            daemon.die_with_parent()
            resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)

        address = f"127.0.0.1:{daemon.free_port()}"
        admin = f"127.0.0.1:{daemon.free_port()}"
        words = [f"--{name}" for name in flags]
        with subprocess.Popen([daemon.LODGEKVD, "--engine", "dram", "--listen", address,
                               "--admin-listen", admin, "--metrics-listen", "off", *words],
                              stderr=subprocess.PIPE, cwd=self.workdir, preexec_fn=prepare,
                              env=daemon.environment()) as process:
            for line in process.stderr:
                if b" serving " in line:
                    break
            process.send_signal(signal.SIGABRT)
            _, status = os.waitpid(process.pid, 0)
            process.returncode = -os.WTERMSIG(status)
        self.assertEqual(process.returncode, -signal.SIGABRT)
        return os.WCOREDUMP(status)

    def test_no_core_unless_asked_for(self):
        try:
            core = self.leaves_core(**{"core-dumps": True})
        except (ValueError, PermissionError) as error:
            self.skipTest(f"this system allows no core: {error}")
        if not core:
            self.skipTest("this system leaves no core in any case")
        self.assertFalse(self.leaves_core())

    # --- keys ---

    def check_config(self, pair):
        return daemon.run(daemon.LODGEKVD, "--check-config", "--engine", "dram", "--tls-cert-file",
                          pair.cert, "--tls-key-file", pair.key, env=daemon.environment())

    def test_modes_of_the_key(self):
        pair = certificates.Authority(self.workdir).issue("server")
        for mode in (0o600, 0o400):
            pair.key.chmod(mode)
            outcome = self.check_config(pair)
            self.assertEqual((outcome.returncode, outcome.stderr), (0, b""))
        for mode in (0o644, 0o604, 0o602):
            pair.key.chmod(mode)
            self.assert_error(self.check_config(pair), 2, str(pair.key),
                              f"by every user of this machine (mode {mode:04o})", "o-rwx")
        pair.key.chmod(0o640)
        outcome = self.check_config(pair)
        self.assertEqual((outcome.returncode, outcome.stdout), (0, b"the configuration is valid\n"))
        self.assertIn(b"is open to its group (mode 0640)", outcome.stderr)
        if os.geteuid() == 0:  # as an orchestrator gives it to the daemon's group
            os.chown(pair.key, STRANGER, -1)
            self.assertEqual(self.check_config(pair).stderr, b"")

    # --- threads ---

    def test_too_few_threads(self):
        """A limit of eight; root has none, so another user is used."""
        program = shutil.copy(daemon.LODGEKVD, self.workdir)
        self.workdir.chmod(0o755)

        def prepare():
            daemon.die_with_parent()
            resource.setrlimit(resource.RLIMIT_NPROC, (8, 8))
            if os.geteuid() == 0:
                os.setuid(STRANGER)

        begin = time.monotonic()
        outcome = daemon.run(program, "--engine", "dram", "--listen",
                             f"127.0.0.1:{daemon.free_port()}", "--admin-listen",
                             f"127.0.0.1:{daemon.free_port()}", "--metrics-listen", "off",
                             env=daemon.environment(), preexec_fn=prepare)
        self.assert_error(outcome, 1, " error ", "threads can be started", "ulimit -u")
        self.assertLess(time.monotonic() - begin, PATIENCE)


if __name__ == "__main__":
    system_test.main()

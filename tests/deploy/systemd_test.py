"""The unit, its user, the rule for devices and how they are installed; and what the daemon tells
the service manager."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest

import certificates
import daemon
import system_test

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy/systemd"
UNIT = "lodgekvd.service"
UNIT_FOLDER = "usr/lib/systemd/system"
# Of systemd-analyze security, times 10: at most a tenth more than the unit's.
MAX_EXPOSURE = 16
STORE = pathlib.Path("/usr/lib/systemd/system")


def needs(*programs):
    missing = [program for program in programs if shutil.which(program) is None]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


def unit_values(name):
    """What the unit sets the key to, last one last."""
    return re.findall(rf"^{name}=(.*)$", (DEPLOY / UNIT).read_text(), re.M)


class InstalledTest(system_test.SystemTest):
    """Everything installed below a folder of the test's own."""

    def setUp(self):
        self.root = self.folder() / "root"
        self.install()

    def install(self):
        outcome = daemon.run(DEPLOY / "install", daemon.BIN,
                             env=os.environ | {"DESTDIR": str(self.root)})
        self.assertEqual(outcome.returncode, 0, outcome.stderr)

    def alter(self, old, new):
        path = self.root / UNIT_FOLDER / UNIT
        text = path.read_text()
        self.assertIn(old, text)
        path.write_text(text.replace(old, new))

    def test_what_is_installed(self):
        modes = {str(path.relative_to(self.root)): path.stat().st_mode & 0o777
                 for path in self.root.rglob("*") if path.is_file()}
        self.assertEqual(modes, {
            "usr/bin/lodgekvd": 0o755, "usr/bin/lodgectl": 0o755,
            f"{UNIT_FOLDER}/{UNIT}": 0o644,
            "usr/lib/sysusers.d/lodgekv.conf": 0o644,
            "usr/lib/udev/rules.d/90-lodgekv-dax.rules": 0o644,
            "etc/lodgekv/lodgekv.yaml": 0o644})

    def test_a_configuration_stays_as_it_is(self):
        config = self.root / "etc/lodgekv/lodgekv.yaml"
        config.write_text("pool: /mnt/pmem0/pool\n")
        self.install()
        self.assertEqual(config.read_text(), "pool: /mnt/pmem0/pool\n")

    def test_the_configuration_is_valid_and_agrees_with_the_unit(self):
        outcome = daemon.run(daemon.LODGEKVD, "--config", self.root / "etc/lodgekv/lodgekv.yaml",
                             "--check-config", env=daemon.environment())
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        printed = daemon.run(daemon.LODGEKVD, "--config", self.root / "etc/lodgekv/lodgekv.yaml",
                             "--print-config", env=daemon.environment()).stdout.decode()
        state, identity = unit_values("StateDirectory")[0].split()
        pool = re.search(r'^pool: "?([^"\n]+)', printed, re.M).group(1)
        self.assertEqual(pool, f"/var/lib/{state}/lodgekv.pool")
        kept = re.search(r'^pool_identity_file: "?([^"\n]+)', printed, re.M).group(1)
        self.assertEqual(kept, f"/var/lib/{identity}/pool_id")

    @needs("systemd-sysusers")
    def test_the_user_of_the_unit_is_made(self):
        outcome = daemon.run("systemd-sysusers", f"--root={self.root}", "lodgekv.conf")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        users = [line.split(":") for line in (self.root / "etc/passwd").read_text().splitlines()]
        user = {fields[0]: fields for fields in users}[unit_values("User")[0]]
        self.assertEqual(user[4:6], ["LodgeKV server", "/var/lib/lodgekv"])
        self.assertRegex(user[6], "nologin")
        self.assertRegex((self.root / "etc/group").read_text(),
                         rf"(?m)^{unit_values('Group')[0]}:")

    def test_no_core_is_left(self):
        self.assertEqual(unit_values("LimitCORE"), ["0"])

    # --- systemd-analyze ---

    def verify(self):
        """What systemd has to say of the unit; its own targets are those of this machine."""
        for path in STORE.glob("*.target"):
            shutil.copy(path, self.root / UNIT_FOLDER)
        (self.root / "bin").mkdir(exist_ok=True)
        shutil.copy("/bin/true", self.root / "bin/kill")
        outcome = daemon.run("systemd-analyze", "verify", f"--root={self.root}", UNIT)
        return outcome.returncode, outcome.stderr.decode()

    @needs("systemd-analyze")
    def test_systemd_has_nothing_to_say(self):
        self.assertEqual(self.verify(), (0, ""))

    @needs("systemd-analyze")
    def test_systemd_would_have_something_to_say(self):
        self.alter("ProtectHome=", "ProtectHomes=")
        self.assertIn("ProtectHomes", self.verify()[1])

    @needs("systemd-analyze")
    def test_drop_ins(self):
        folder = self.root / "etc/systemd/system" / (UNIT + ".d")
        folder.mkdir(parents=True)
        for name in ("fsdax.conf", "devdax.conf", "journal.conf"):
            with self.subTest(name):
                shutil.copy(DEPLOY / name, folder)
                self.assertEqual(self.verify(), (0, ""))
                (folder / name).write_text((DEPLOY / name).read_text() + "\nNoSuchKey=1\n")
                self.assertIn("NoSuchKey", self.verify()[1])
                (folder / name).unlink()

    def exposure(self, threshold):
        return daemon.run("systemd-analyze", "security", "--offline=true", "--no-pager",
                          f"--threshold={threshold}", f"--root={self.root}", UNIT)

    @needs("systemd-analyze")
    def test_exposure(self):
        outcome = self.exposure(MAX_EXPOSURE)
        self.assertEqual(outcome.returncode, 0, outcome.stdout.decode())
        self.alter("CapabilityBoundingSet=\n", "")
        self.assertNotEqual(self.exposure(MAX_EXPOSURE).returncode, 0)

    # --- udev ---

    def udev_says(self, rules):
        """What udevd has to say of the file, in a namespace where no other rule is."""
        (self.root / "rules").write_text(rules)
        script = (f"mount -t tmpfs none /etc/udev && mount -t tmpfs none /lib/udev && "
                  f"mkdir /etc/udev/rules.d && "
                  f"cp {self.root}/rules /etc/udev/rules.d/90-a.rules && "
                  f"udevadm test /sys/class/mem/null 2>&1")
        outcome = daemon.run("unshare", "--mount", "sh", "-c", script)
        if outcome.returncode != 0 and b"Reading rules file" not in outcome.stdout:
            self.skipTest(f"no mount namespace for udevadm: {outcome.stderr.decode().strip()}")
        return re.findall(r".*90-a\.rules:\d+.*", outcome.stdout.decode())

    @needs("udevadm", "unshare")
    def test_rule_for_devices(self):
        rules = (DEPLOY / "90-lodgekv-dax.rules").read_text()
        # The package creates the group; here it need not exist.
        self.assertEqual(self.udev_says(rules.replace('GROUP="lodgekv"', 'GROUP="root"')), [])
        self.assertNotEqual(self.udev_says(rules.replace("KERNEL==", "KERNELL==")), [])


class NotifyTest(system_test.SystemTest):
    def setUp(self):
        self.workdir = self.folder()
        self.path = self.workdir / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.socket.close)
        self.socket.bind(str(self.path))
        self.socket.settimeout(daemon.START_SECONDS)

    def receive(self, wanted):
        """The next message that has this assignment; those of recovery may come before it."""
        while True:
            lines = self.socket.recv(4096).decode().splitlines()
            if wanted in lines:
                return lines
            self.assertTrue(any(line.startswith("STATUS=recovering") for line in lines), lines)

    def test_from_start_to_stop(self):
        config = self.workdir / "lodgekv.yaml"
        config.write_text("drain_grace: 7s\n")
        server = daemon.Daemon(self.workdir, pool=self.workdir / "pool", config=config,
                               pool_size=64 * daemon.MIB)
        server.environment["NOTIFY_SOCKET"] = str(self.path)
        with server.spawn():
            self.assertIn(f"STATUS=serving {server.server}", self.receive("READY=1"))
            self.assertTrue(server.is_serving(), "not serving when it says that it is ready")
            server.process.send_signal(signal.SIGHUP)
            self.receive("RELOADING=1")
            self.receive("READY=1")
            server.terminate()
            self.assertIn("EXTEND_TIMEOUT_USEC=307000000", self.receive("STOPPING=1"))
            self.assertEqual(server.process.wait(daemon.STOP_SECONDS), 0)

    def test_one_that_cannot_start_is_never_ready(self):
        server = daemon.Daemon(self.workdir, pool=self.workdir / "none" / "pool")
        server.environment["NOTIFY_SOCKET"] = str(self.path)
        with server.spawn():
            self.assertEqual(server.process.wait(daemon.STOP_SECONDS), 1)
        self.socket.setblocking(False)
        self.assertRaises(BlockingIOError, self.socket.recv, 4096)


class ExitCodesTest(unittest.TestCase):
    def test_final_ones_are_not_restarted(self):
        text = daemon.run(daemon.LODGEKVD, "--help").stdout.decode()
        table = dict(re.findall(r"^  (\d+) +(.+)$", text[text.index("Exit codes:"):], re.M))
        self.assertEqual(sorted(table, key=int), ["0", "1", "2", "65", "66", "74"])
        final = unit_values("RestartPreventExitStatus")[0].split()
        self.assertEqual(final, ["2", "65", "66", "74"])
        self.assertEqual(unit_values("Restart"), ["on-failure"])


class SystemCallsTest(system_test.SystemTest):
    """What the daemon asks of the kernel from start to stop, and what the unit lets through."""

    def traced(self, *, tls=False, on_file=False):
        """(name, arguments) of each call, with a configuration and certificates that change."""
        workdir = self.folder(daemon.disk_folder() if on_file else None)
        trace, config = workdir / "trace", workdir / "lodgekv.yaml"
        config.write_text("log_level: info\n")
        server = daemon.Daemon(workdir, pool=workdir / "pool", pool_size=64 * daemon.MIB,
                               forced_pmem=not on_file, config=config,
                               health_listen=f"127.0.0.1:{daemon.free_port()}",
                               metrics_listen=f"127.0.0.1:{daemon.free_port()}")
        rotate = self.give_certificates(server) if tls else lambda: None
        plain = server.command
        server.command = lambda: ["strace", "-f", "-qq", "-o", str(trace), *plain()]
        with server:
            self.use(server)
            rotate()
            config.write_text("log_level: debug\n")
            os.kill(self.child_of(server.process.pid), signal.SIGHUP)
            self.await_log(server, "configuration reloaded",
                           *(["rotated TLS files were loaded"] if tls else []))
            self.use(server)
            os.kill(self.child_of(server.process.pid), signal.SIGTERM)
            self.assertEqual(server.process.wait(daemon.STOP_SECONDS), 0, server.tail())
        return re.findall(r"^\d+ +(\w+)\((.*)$", trace.read_text(errors="replace"), re.M)

    @staticmethod
    def give_certificates(server):
        """Mutual TLS; a function that replaces the server's pair."""
        authority = certificates.Authority(server.workdir)
        pair, fresh, own = (authority.issue(name) for name in ("server", "fresh", "client"))
        server.flags |= {"tls_cert_file": pair.cert, "tls_key_file": pair.key,
                         "tls_ca_file": authority.cert, "tls_refresh": "1h"}
        server.ctl_flags = ["--tls-ca", authority.cert, "--tls-cert", own.cert, "--tls-key",
                            own.key]
        return lambda: [os.replace(*paths) for paths in zip(fresh, pair)]

    def use(self, server):
        server.ask("put", "k" * 8, "v" * 8)
        self.assertEqual(server.ask("get", "--raw", "k" * 8), b"v" * 8)

    def await_log(self, server, *wanted):
        deadline = time.monotonic() + daemon.START_SECONDS
        while not all(text in server.tail() for text in wanted):
            self.assertLess(time.monotonic(), deadline, f"not logged: {wanted}\n{server.tail()}")
            time.sleep(0.1)

    @staticmethod
    def child_of(pid):
        return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    @staticmethod
    def members(group):
        """All calls of a group of systemd's, those of the groups in it too."""
        text = subprocess.run(["systemd-analyze", "syscall-filter", group], check=True,
                              capture_output=True, text=True).stdout
        names = [line.strip() for line in text.splitlines()[1:] if line.strip() and "#" not in line]
        return set().union(*(SystemCallsTest.members(name) if name.startswith("@") else {name}
                             for name in names))

    @needs("strace", "systemd-analyze")
    def test_the_filter_lets_through_what_it_needs(self):
        self.check_filter(self.traced())

    @needs("strace", "systemd-analyze")
    def test_and_what_a_journal_needs(self):
        calls = self.traced(on_file=True)
        if "fdatasync" not in {name for name, _ in calls}:
            self.skipTest(f"{daemon.disk_folder()} is not on a disk: a pool there has no journal")
        self.assertLessEqual({"pwrite64", "fallocate", "flock"}, {name for name, _ in calls})
        self.check_filter(calls)

    @needs("strace", "systemd-analyze", "openssl")
    def test_and_what_tls_needs(self):
        calls = self.traced(tls=True)
        self.assertLessEqual({"memfd_create", "dup3"}, {name for name, _ in calls})
        self.check_filter(calls)

    def check_filter(self, calls):
        allowed = set()
        for value in unit_values("SystemCallFilter"):
            if value.startswith("~"):
                allowed -= self.members(value[1:])
            else:
                allowed |= self.members(value)
        # execve is how systemd starts it, after the filter is set; it is in the group @process.
        self.assertEqual({name for name, _ in calls} - allowed, set())
        self.assertNotIn("ptrace", allowed)
        self.assertGreater(len({name for name, _ in calls}), 30)
        families = {word for name, rest in calls if name == "socket"
                    for word in re.findall(r"\bAF_\w+", rest)}
        self.assertEqual(families - set(unit_values("RestrictAddressFamilies")[0].split()), set())
        writable_code = [rest for name, rest in calls if name in ("mmap", "mprotect")
                         and "PROT_WRITE" in rest and "PROT_EXEC" in rest]
        self.assertEqual(writable_code, [], "MemoryDenyWriteExecute")


if __name__ == "__main__":
    system_test.main()

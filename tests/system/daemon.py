"""The real daemon and the real lodgectl, as the system tests drive them.

LODGEKV_BIN names the folder of the programs. A test ends only what it started, and its files lie in
folders of their own that vanish with it.
"""

import contextlib
import ctypes
import functools
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from ports import free_port

BIN = pathlib.Path(os.environ["LODGEKV_BIN"])
# A build with sanitizers is slow, and keeps freed memory for a while: tests do not check its memory
# and times, but everything else.
SANITIZED = "LODGEKV_SANITIZED" in os.environ
SLOWER = 10 if SANITIZED else 1
LODGEKVD = BIN / "lodgekvd"
LODGECTL = BIN / "lodgectl"
MIB = 1 << 20
START_SECONDS = 60
STOP_SECONDS = 60

# prctl(PR_SET_PDEATHSIG, SIGKILL): a daemon must not outlive a killed test.
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent():
    _libc.prctl(1, signal.SIGKILL)


class DaemonError(Exception):
    pass


@contextlib.contextmanager
def folder(parent=None):
    """A temporary folder; in memory by default."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="lodgekv-test-", dir=parent or memory_folder()))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def memory_folder():
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def disk_folder():
    return os.environ.get("TMPDIR", "/var/tmp")


def run(*command, **options):
    """Runs to the end; the outcome has returncode, stdout and stderr as bytes."""
    return subprocess.run([str(word) for word in command], capture_output=True, timeout=300,
                          check=False, **options)


def environment(**more):
    """Our environment, without variables that configure the programs."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LODGEKV_")}
    return clean | {name: str(value) for name, value in more.items()}


class Daemon:
    """lodgekvd on free ports. Further flags by name: engine="dram" is --engine dram."""

    def __init__(self, workdir, *, forced_pmem=True, **flags):
        self.workdir = pathlib.Path(workdir)
        self.flags = {"allow_volatile_medium": True, "metrics_listen": "off"} | flags
        self.environment = environment(**({"PMEM_IS_PMEM_FORCE": 1} if forced_pmem else {}))
        self.log = self.workdir / "lodgekvd.log"
        self.process = None
        self.server = self.admin = None
        self.ctl_flags = []  # that lodgectl needs to reach it
        self.before_start = None  # called in its process, before the program

    def command(self):
        words = [str(LODGEKVD)]
        for name, value in self.flags.items():
            flag = "--" + name.replace("_", "-")
            words += [flag] if value is True else [flag, str(value)]
        return words + ["--listen", self.server, "--admin-listen", self.admin]

    def spawn(self):
        """Starts without waiting until it serves."""
        self.server = f"127.0.0.1:{free_port()}"
        self.admin = f"127.0.0.1:{free_port()}"
        # Not die_with_parent: a function to be called in the child has Python fork, which gRPC
        # 1.51, in tests that use it, sometimes does not survive while it ends its threads.
        with_parent = ["setpriv", "--pdeathsig", "KILL"]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(with_parent + self.command(), stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env=self.environment,
                                            preexec_fn=self.before_start)
        return self

    def start(self):
        self.spawn()
        deadline = time.monotonic() + START_SECONDS
        while not self.is_serving():
            if self.process.poll() is not None:
                raise DaemonError(f"lodgekvd ended with {self.process.returncode}:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise DaemonError(f"no service after {START_SECONDS} s:\n{self.tail()}")
            time.sleep(0.02)
        return self

    def is_serving(self):
        host, port = self.admin.rsplit(":", 1)
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
            outcome = self.ctl("status", "--json")
            return outcome.returncode == 0 and json.loads(outcome.stdout)["state"] in (
                "SERVER_STATE_SERVING", "SERVER_STATE_READ_ONLY_FULL")
        return False

    def memory(self, name="VmRSS"):
        """In bytes; VmHWM is the most so far."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) << 10
        raise DaemonError(f"no {name}:\n{self.tail()}")

    def tail(self):
        return self.log.read_text(errors="replace")[-4000:]

    def kill(self):
        self.process.kill()
        self.process.wait(STOP_SECONDS)

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def stop(self):
        """SIGTERM; the exit code."""
        self.terminate()
        return self.process.wait(STOP_SECONDS)

    def __enter__(self):
        return self.start() if self.process is None else self

    def __exit__(self, *_):
        if self.process is not None and self.process.poll() is None:
            self.kill()

    # --- lodgectl ---

    def ctl_command(self, *words):
        return [str(LODGECTL), "--server", self.server, "--admin", self.admin,
                *map(str, self.ctl_flags),
                *[word if isinstance(word, bytes) else str(word) for word in words]]

    def ctl(self, *words, **options):
        return subprocess.run(self.ctl_command(*words), capture_output=True, timeout=300,
                              check=False, env=environment(), **options)

    def ask(self, *words, **options):
        """The output of a command that must succeed."""
        outcome = self.ctl(*words, **options)
        if outcome.returncode != 0:
            raise DaemonError(f"lodgectl {' '.join(map(str, words))} ended with "
                              f"{outcome.returncode}: {outcome.stderr.decode(errors='replace')}"
                              f"\n{self.tail()}")
        return outcome.stdout

    def ask_json(self, *words):
        return json.loads(self.ask(*words, "--json"))

    def start_ctl(self, *words, **options):
        return subprocess.Popen(self.ctl_command(*words), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=environment(), **options)

    def dump(self):
        """All lines, without their ends."""
        return self.ask("dump", "--bare").split(b"\n")[:-1]

    def key_count(self):
        return int(self.ask_json("stats")["keys"])


class UnixDaemon(Daemon):
    """With its data on a Unix socket."""

    def __init__(self, workdir, path, **flags):
        super().__init__(workdir, **flags)
        self.path = path

    def command(self):
        self.server = f"unix:{self.path}"
        return super().command()


@functools.cache
def engines():
    """The engines of this build as the daemon describes them."""
    with folder() as workdir, Daemon(workdir, engine="dram") as daemon:
        return daemon.ask_json("engines")["engines"]


def persistent_engines():
    """Their names. LODGEKV_ENGINES=a,b runs those alone."""
    names = [engine["name"] for engine in engines() if engine["persistent"]]
    if wanted := os.environ.get("LODGEKV_ENGINES"):
        names = [name for name in names if name in wanted.split(",")]
    if not names:
        raise DaemonError("this build has no persistent engine to test")
    return names

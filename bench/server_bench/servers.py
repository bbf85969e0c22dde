"""The servers that are measured, each a process of its own on free ports of 127.0.0.1.

A server's files lie in a folder of its own below the benchmark's, and go with it. Only processes
that were started here are ended here.
"""

import contextlib
import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

from shared import metrics_page, ports

START_SECONDS = 60
STOP_SECONDS = 60
POLL_SECONDS = 0.002
LOOPBACK = "127.0.0.1"
MEMORY = {"tmpfs", "ramfs"}  # volatile file systems

# prctl(PR_SET_PDEATHSIG, SIGKILL): a server must not outlive a killed benchmark.
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent():
    _libc.prctl(1, signal.SIGKILL)


class ServerError(Exception):
    pass


def fetch(url, seconds=5):
    with urllib.request.urlopen(url, timeout=seconds) as answer:
        return answer.read().decode()


def version_of(program):
    """The first line of what it says of itself."""
    outcome = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30,
                             check=False)
    return (outcome.stdout or outcome.stderr).strip().split("\n")[0]


def file_system_of(folder):
    return subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True,
                          timeout=30, check=True).stdout.strip()


class Server:
    """A server as a context: started on entry, ended with all of its files on exit."""

    name = protocol = ""

    def __init__(self, folder):
        self.folder = folder
        self.address = None
        self.process = None
        self.log = folder / "log"
        self.environment = {}  # beside ours

    def command(self):
        raise NotImplementedError

    def is_ready(self):
        raise NotImplementedError

    def start(self):
        """Returns the seconds until it served."""
        self.folder.mkdir(parents=True, exist_ok=True)
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("LODGEKV_", "ETCD_"))}
        environment |= self.environment
        command = self.command()
        begin = time.monotonic()
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, env=environment, cwd=self.folder,
                                            preexec_fn=die_with_parent)
        while not self.is_ready():
            if self.process.poll() is not None:
                raise ServerError(f"{self.name} ended with {self.process.returncode}:\n"
                                  f"{self.log_text()[-2000:]}")
            if time.monotonic() - begin > START_SECONDS:
                raise ServerError(f"{self.name} did not serve within {START_SECONDS} s:\n"
                                  f"{self.log_text()[-2000:]}")
            time.sleep(POLL_SECONDS)
        return time.monotonic() - begin

    def stop(self):
        """A clean shutdown."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self.process = None

    def kill(self):
        self.process.kill()
        self.process.wait(STOP_SECONDS)
        self.process = None

    def log_text(self):
        return self.log.read_text(errors="replace")

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


NOOP = "no-op"
FULL = "no-op, full answers"


class Noop(Server):
    """The gRPC server that does nothing; full: with answers of a server that finds everything."""

    def __init__(self, folder, binaries, full=0):
        super().__init__(folder)
        self.full = full
        self.name = FULL if full else NOOP
        self.unix = folder / "socket"
        self.words = [str(binaries / "noop_server"), "--unix", str(self.unix), "--full", str(full)]

    def command(self):
        return self.words

    def is_ready(self):
        found = re.search(r"listening tcp=(\S+) .*\n", self.log_text())
        if found:
            self.address = found[1]
        return found is not None


class Lodgekvd(Server):
    """With the engine `null` everything of it but a store."""

    protocol = "lodgekv"

    def __init__(self, folder, binaries, engine, pool_size=None, volatile_medium=False):
        super().__init__(folder)
        self.name = engine
        self.engine = engine
        self.words = [str(binaries / "lodgekvd"), "--engine", engine]
        for flag in ("--listen", "--admin-listen", "--metrics-listen"):
            self.words += [flag, f"{LOOPBACK}:0"]
        if engine not in ("null", "dram"):
            self.words += ["--pool", str(folder / "pool")]
            if pool_size:
                self.words += ["--pool-size", pool_size]
            if volatile_medium:
                self.words += ["--allow-volatile-medium"]

    def command(self):
        return self.words

    def is_ready(self):
        text = self.log_text()
        if not re.search(r" serving .*\n", text):
            return False
        ports = re.search(r" listening data=(\S+) admin=(\S+) metrics=(\S+) ", text)
        self.address, self.admin, self.metrics_address = ports.groups()
        return True

    def metrics(self):
        return metrics_page.read(self.metrics_address)


class Redis(Server):
    """Each put is synced before it is answered; snapshots are off, rewrites of the log are not."""

    name = protocol = "redis"
    program = "redis-server"
    package = "redis-server"

    def command(self):
        port = ports.free_port()
        self.address = f"{LOOPBACK}:{port}"
        return [self.program, "--port", str(port), "--bind", LOOPBACK, "--dir", str(self.folder),
                "--appendonly", "yes", "--appendfsync", "always", "--save", "",
                "--daemonize", "no"]

    def is_ready(self):
        host, port = self.address.split(":")
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 5) as to:
            to.sendall(b"PING\r\n")
            return to.recv(64) == b"+PONG\r\n"
        return False


class Etcd(Server):
    """One member; each put is synced to its log before it is answered."""

    name = protocol = "etcd"
    program = "etcd"
    package = "etcd-server"

    def command(self):
        self.address = f"{LOOPBACK}:{ports.free_port()}"
        client = f"http://{self.address}"
        peer = f"http://{LOOPBACK}:{ports.free_port()}"
        return [self.program, "--data-dir", str(self.folder / "data"), "--name", "bench",
                "--listen-client-urls", client, "--advertise-client-urls", client,
                "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                "--initial-cluster", f"bench={peer}", "--log-level", "error", "--logger", "zap"]

    def is_ready(self):
        with contextlib.suppress(OSError, urllib.error.URLError):
            return "true" in fetch(f"http://{self.address}/health")
        return False


PEERS = (Redis, Etcd)


def missing_peers():
    """What to say of each peer that is not on this machine."""
    return {peer.name: f"not installed (apt-get install {peer.package}), skipped"
            for peer in PEERS if shutil.which(peer.program) is None}

"""Daemons with every engine under load and after a crash, one of them on an ordinary file; one that
fills, one with TLS, one that has ended."""

import contextlib
import itertools
import pathlib
import socket
import threading
import time

import certificates
import daemon
import metrics_page
import records

VALUE = b"v" * 100
BIG = b"b" * 3000
BEFORE_THE_CRASH = 20_000
# So far apart that no two are likely to share a buffer.
ALONE_BEFORE_THE_CRASH = range(0, BEFORE_THE_CRASH, 1000)


class Server(daemon.Daemon):
    """A daemon with a metrics endpoint."""

    def __init__(self, workdir, name, **flags):
        folder = pathlib.Path(workdir) / name
        folder.mkdir()
        self.name = name
        self.target = f"127.0.0.1:{daemon.free_port()}"
        super().__init__(folder, **({"metrics_listen": self.target} | flags))

    def scrape(self):
        return metrics_page.fetch(self.target)


# What is off by default has panels, too.
OPTIONS = {"sptree": {"engine_option": "write_buffer_pairs=14"}}


def with_pool(workdir, engine, name=None, *, size=128):
    name = name or engine
    return Server(workdir, name, engine=engine, pool=pathlib.Path(workdir) / name / "pool",
                  pool_size=size * daemon.MIB, **OPTIONS.get(engine, {}))


def on_file(disk):
    """An ordinary file, with a journal so small that checkpoints are made all the time."""
    return Server(disk, "file", engine=daemon.persistent_engines()[0], forced_pmem=False,
                  pool=pathlib.Path(disk) / "file/pool", pool_size=128 * daemon.MIB,
                  journal_size=daemon.MIB)


def with_tls(workdir):
    """The engine in memory, and certificates of our own."""
    authority = certificates.Authority(pathlib.Path(workdir))
    pair, client = authority.issue("server"), authority.issue("client")
    server = Server(workdir, "tls", engine="dram", tls_cert_file=pair.cert, tls_key_file=pair.key,
                    tls_ca_file=authority.cert)
    server.ctl_flags = ["--tls-ca", authority.cert, "--tls-cert", client.cert,
                        "--tls-key", client.key]
    return server


def knock(server):
    """A client that speaks no TLS."""
    host, port = server.server.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")


class Stage(contextlib.ExitStack):
    """Serves while it is entered; play() brings the load on. `disk`: a folder that is on one."""

    def __init__(self, workdir, disk):
        super().__init__()
        self.workdir = pathlib.Path(workdir)
        self.file = on_file(disk)
        self.loaded = [with_pool(workdir, engine) for engine in daemon.persistent_engines()]
        self.loaded.append(self.file)
        self.filling = with_pool(workdir, daemon.persistent_engines()[0], "filling", size=32)
        self.tls = with_tls(workdir)
        self.ended = Server(workdir, "ended", engine="dram")
        self.servers = [*self.loaded, self.filling, self.tls, self.ended]
        self.ending = threading.Event()
        self.failures = []

    def __enter__(self):
        for server in self.servers:
            self.enter_context(server)
        return self

    @property
    def targets(self):
        return [server.target for server in self.servers]

    def play(self):
        """Begins; what Prometheus has seen of the servers before is their first life."""
        self.ended.stop()
        for server in self.loaded:
            self.load(server, "before", range(BEFORE_THE_CRASH), batch=256)
            # A large batch goes to its leaves at once. A single put stays in a log until its buffer
            # is full, which these never fill.
            self.load(server, "before", ALONE_BEFORE_THE_CRASH, batch=1)
            server.kill()
            server.start()
        jobs = [(self.mix, server) for server in self.loaded] + [
            (self.fill, self.filling), (self.mix, self.tls)]
        threads = [threading.Thread(target=self.run, args=job) for job in jobs]
        for thread in threads:
            thread.start()
        # Called in this order: the threads end, then the daemons.
        for thread in threads:
            self.callback(thread.join)
        self.callback(self.ending.set)

    def run(self, job, server):
        for turn in itertools.count():
            if self.ending.is_set():
                return
            try:
                job(server, turn)
            except daemon.DaemonError as error:
                self.failures.append(f"{server.name}: {error}")
                return

    def mix(self, server, turn):
        """Single puts, batches, overwriting, deletes, reads, and a request that is wrong. The last
        overwriting is in leaves that have lost every other pair: SSTree moves what it finds."""
        numbers = range(turn * 1000, turn * 1000 + 1000)
        self.load(server, "mix", numbers, batch=1)
        self.load(server, "mix", numbers[:300], batch=1)
        self.load(server, "batch", numbers, batch=100)
        self.load(server, "mix", numbers[:800], "--delete", batch=1)
        self.load(server, "mix", numbers[800:980:2], "--delete", batch=1)
        self.load(server, "mix", numbers[801:980:2], batch=1)
        for number in numbers[-3:]:
            server.ask("get", f"mix/{number:08}")
            server.ask("delete", f"mix/{number:08}")
        server.ask("scan", "--prefix", "batch/0000")
        server.ctl("get", "k" * 5000)
        if server is self.tls:
            knock(server)

    def fill(self, server, turn):
        """Past the end of the room, and on."""
        self.load(server, "fill", range(turn * 2000, turn * 2000 + 2000), batch=1, value=BIG)
        time.sleep(0.1)

    def load(self, server, kind, numbers, *flags, batch, value=VALUE):
        source = server.workdir / "input.tsv"
        records.write_lines(source, [b"%s/%08d\t" % (kind.encode(), number) + value
                                     for number in numbers])
        return server.ctl("load", source, "--batch", batch, *flags)

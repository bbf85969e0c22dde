"""What the tests of the Python client share. It is loaded as users without pip load it, and needs
Debian's python3-grpcio and python3-protobuf."""

import concurrent.futures
import contextlib
import os
import pathlib
import signal
import sys

import grpc

import system_test

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "client/python"
SECONDS = 30

sys.path.insert(0, str(PACKAGE))

import lodgekv  # noqa: E402


class PythonClientTest(system_test.SystemTest):
    def serve(self, **flags):
        """A daemon, and a client of it."""
        self.server = self.daemon(self.folder(), **{"engine": "dram"} | flags)
        return self.connect(self.server.server)

    def pause(self):
        self.server.process.send_signal(signal.SIGSTOP)
        os.waitpid(self.server.process.pid, os.WUNTRACED)

    def connect(self, target, **options):
        return self.enterContext(lodgekv.Client(target, **options))


@contextlib.contextmanager
def scripted_server(handlers):
    """A service in this process that does what the test says; its address."""
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("lodgekv.v1.KvService", handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()

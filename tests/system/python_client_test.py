"""The Python client of client/python, as Debian's own interpreter and packages run it.

Needs Debian's python3-grpcio, python3-protobuf and protobuf-compiler; for the package itself,
python3-venv.
"""

import datetime
import pickle
import re
import socket
import sys
import time
import tomllib
import unittest

import grpc
from google.protobuf import descriptor_pb2

import certificates
import daemon
import python_client
import system_test
from python_client import PACKAGE, ROOT, SECONDS, lodgekv

UTC = datetime.timezone.utc


class CallsTest(python_client.PythonClientTest):
    def test_put_get_and_delete(self):
        client = self.serve()
        key, value = b"\x00\xff key", bytes(range(256))
        self.assertEqual(client.get(key), lodgekv.GetResult(False, None, 0, None))
        first = client.put(key, value)
        self.assertGreater(first, 0)
        self.assertEqual(client.get(key), lodgekv.GetResult(True, value, first, None))
        self.assertGreater(client.put(key, b""), first)
        self.assertEqual(client.get(key).value, b"")
        self.assertIs(client.delete(key), True)
        self.assertIs(client.delete(key), False)
        self.assertFalse(client.get(key).found)
        client.put(b"told", b"to lodgectl")
        self.assertEqual(self.server.ask("get", "told"), b"to lodgectl\n")

    def test_large_values(self):
        client = self.serve(max_value_size=8 * daemon.MIB, max_batch_size=16 * daemon.MIB)
        value = b"v" * (8 * daemon.MIB)
        client.put(b"large", value)
        self.assertEqual(client.get(b"large").value, value)

    def test_text_is_refused(self):
        client = self.serve()
        for call in (lambda: client.get("k"), lambda: client.put("k", b"v"),
                     lambda: client.put(b"k", "v"), lambda: client.delete("k"),
                     lambda: client.batch_get(["k"]), lambda: client.batch_get(b"k"),
                     lambda: client.batch_write([lodgekv.Delete("k")]),
                     lambda: client.batch_write([b"k"]), lambda: client.scan(prefix="k")):
            with self.assertRaises(TypeError):
                call()

    # --- conditions ---

    def test_conditions(self):
        client = self.serve()
        first = client.put(b"k", b"1", if_absent=True)
        second = client.put(b"k", b"2", if_version=first)
        self.assertGreater(client.put(b"k", b"3", if_present=True), second)
        for call in (lambda: client.put(b"k", b"x", if_absent=True),
                     lambda: client.put(b"k", b"x", if_version=first),
                     lambda: client.put(b"other", b"x", if_present=True),
                     lambda: client.delete(b"k", if_version=second),
                     lambda: client.delete(b"other", if_present=True)):
            with self.assertRaises(lodgekv.ConditionFailedError):
                call()
        self.assertEqual(client.get(b"k").value, b"3")
        self.assertTrue(client.delete(b"k", if_version=client.get(b"k").version))
        with self.assertRaises(ValueError):
            client.put(b"k", b"x", if_absent=True, if_version=1)

    def test_what_an_error_tells(self):
        client = self.serve()
        version = client.put(b"k", b"v")
        with self.assertRaises(lodgekv.LodgeKVError) as caught:
            client.put(b"k", b"w", if_absent=True)
        error = caught.exception
        self.assertIs(type(error), lodgekv.ConditionFailedError)
        self.assertIs(error.code, grpc.StatusCode.FAILED_PRECONDITION)
        self.assertEqual(error.reason, "CONDITION_FAILED")
        self.assertEqual(error.info.metadata, {"found": "true", "version": str(version)})
        self.assertEqual([field for field, _ in error.info.violations], ["key"])
        self.assertIsNone(error.info.retry_after)
        self.assertIs(error.write_is_unknown, False)
        self.assertEqual(str(error), f"FAILED_PRECONDITION: {error.message}")
        self.assertIsInstance(error.__cause__, grpc.RpcError)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(again), again.args), (type(error), error.args))

    # --- time to live ---

    def test_time_to_live(self):
        client = self.serve()
        for ttl in (100, 100.0, datetime.timedelta(seconds=100)):
            before = datetime.datetime.now(UTC)
            client.put(b"k", b"v", ttl=ttl)
            after = datetime.datetime.now(UTC)
            left = client.get(b"k").expire_time - datetime.timedelta(seconds=100)
            slack = datetime.timedelta(milliseconds=1)
            self.assertTrue(before - slack <= left <= after + slack, (before, left, after))
        self.assertEqual(next(client.scan()).expire_time, client.get(b"k").expire_time)
        client.put(b"k", b"v")
        self.assertIsNone(client.get(b"k").expire_time)
        with self.assertRaises(lodgekv.InvalidArgumentError) as caught:
            client.put(b"k", b"v", ttl=0)
        self.assertEqual(caught.exception.reason, "BAD_TTL")
        self.assertEqual([field for field, _ in caught.exception.info.violations], ["ttl"])

    def test_expired_values_are_not_found(self):
        client = self.serve()
        client.put(b"k", b"v", ttl=0.05)
        deadline = time.monotonic() + SECONDS
        while client.get(b"k").found:
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual(list(client.scan()), [])

    # --- batches ---

    def test_batches(self):
        client = self.serve()
        old = client.put(b"old", b"v")
        results = client.batch_write([
            lodgekv.Put(b"a", b"1"), lodgekv.Delete(b"old", if_version=old),
            lodgekv.Put(b"b", b"2", if_absent=True, ttl=100), lodgekv.Delete(b"none")])
        self.assertEqual([result.found for result in results], [False, True, False, False])
        found = client.batch_get(iter([b"b", b"old", b"a"]))
        self.assertEqual([result.value for result in found], [b"2", None, b"1"])
        self.assertEqual([found[2].version, found[0].version],
                         [results[0].version, results[2].version])
        self.assertGreater(found[0].expire_time, datetime.datetime.now(UTC))
        self.assertEqual((client.batch_write([]), client.batch_get([])), ([], []))

    def test_batch_whose_condition_fails(self):
        client = self.serve()
        client.put(b"b", b"v")
        with self.assertRaises(lodgekv.ConditionFailedError) as caught:
            client.batch_write([lodgekv.Put(b"a", b"1"), lodgekv.Put(b"b", b"2", if_absent=True)])
        self.assertEqual(caught.exception.info.metadata["operation"], "1")
        self.assertEqual([item.value for item in client.scan()], [b"v"])

    def test_batches_that_are_refused(self):
        client = self.serve()
        for operations, reason in (([lodgekv.Get(b"k")], "BAD_KIND"),
                                   ([lodgekv.Put(b"k", b""), lodgekv.Delete(b"k")],
                                    "KEY_TWICE")):
            with self.assertRaises(lodgekv.InvalidArgumentError) as caught:
                client.batch_write(operations)
            self.assertEqual(caught.exception.reason, reason)

    # --- scans ---

    def filled(self, count=25):
        client = self.serve()
        self.keys = [b"key/%02d" % number for number in range(count)]
        client.batch_write([lodgekv.Put(key, b"of " + key) for key in self.keys])
        client.put(b"zzz", b"outside of the prefix")
        return client

    def test_scans_over_several_pages(self):
        client = self.filled()
        for reverse in (False, True):
            with self.subTest(reverse=reverse):
                scan = client.scan(prefix=b"key/", page_items=10, reverse=reverse)
                places, items = [], []
                for item in scan:
                    items.append(item)
                    places += [scan.continuation] * (scan.continuation not in places)
                self.assertEqual([item.key for item in items],
                                 self.keys[::-1] if reverse else self.keys)
                self.assertTrue(all(item.value == b"of " + item.key for item in items))
                self.assertEqual(len(places), 3)
                self.assertEqual(scan.continuation, b"")
                self.assertEqual(list(scan), [])
        self.assertEqual({item.version for item in client.scan(prefix=b"key/03")},
                         {client.get(b"key/03").version})

    def test_ranges_limits_and_keys_only(self):
        client = self.filled()

        def keys(**options):
            return [item.key for item in client.scan(**options)]
        self.assertEqual(keys(), [*self.keys, b"zzz"])
        self.assertEqual(keys(start=b"key/10", end=b"key/13"), self.keys[10:13])
        self.assertEqual(keys(end=b"key/03", reverse=True), self.keys[2::-1])
        self.assertEqual(keys(start=b"key/20", prefix=b"key/2", limit=2), self.keys[20:22])
        self.assertEqual(keys(limit=12, page_items=5), self.keys[:12])
        bare = list(client.scan(prefix=b"key/0", keys_only=True))
        self.assertEqual([(item.key, item.value) for item in bare],
                         [(key, b"") for key in self.keys[:10]])

    def test_a_scan_goes_on_where_another_was_left(self):
        client = self.filled()
        for reverse, keys in ((False, self.keys), (True, self.keys[::-1])):
            the_range = {"prefix": b"key/", "reverse": reverse, "page_items": 10}
            with client.scan(**the_range) as scan:
                self.assertEqual([next(scan).key for _ in range(13)], keys[:13])
            self.assertEqual(list(scan), [], "after it was closed")
            rest = client.scan(continuation=scan.continuation, **the_range)
            self.assertEqual([item.key for item in rest], keys[10:])

    def test_a_scan_whose_client_is_closed(self):
        client = self.filled()
        scan = client.scan(page_items=10)
        taken = [next(scan).key]
        client.close()
        with self.assertRaises(lodgekv.CancelledError):
            for item in scan:
                taken.append(item.key)
        again = self.connect(self.server.server).scan(continuation=scan.continuation)
        self.assertEqual(len(taken) % 10, 0)
        self.assertEqual(taken + [item.key for item in again], [*self.keys, b"zzz"])


class ErrorsTest(python_client.PythonClientTest):
    def error(self, kind, call):
        with self.assertRaises(lodgekv.LodgeKVError) as caught:
            call()
        self.assertIs(type(caught.exception), kind, caught.exception)
        return caught.exception

    def test_invalid_arguments(self):
        client = self.serve(max_key_size=100)
        for call in (lambda: client.get(b""), lambda: client.put(b"k" * 101, b"v"),
                     lambda: list(client.scan(end=b"a", continuation=b"outside of it"))):
            error = self.error(lodgekv.InvalidArgumentError, call)
            self.assertTrue(error.reason and error.info.violations, error)
            self.assertFalse(error.write_is_unknown)

    def test_a_full_pool(self):
        workdir = self.folder()
        client = self.serve(engine=daemon.persistent_engines()[0], pool=workdir / "pool",
                            pool_size=32 * daemon.MIB)
        value = b"v" * (daemon.MIB // 2)

        def fill():
            for number in range(100):
                client.put(b"%d" % number, value)
        error = self.error(lodgekv.PoolFullError, fill)
        self.assertIsInstance(error, lodgekv.ResourceExhaustedError)
        self.assertFalse(error.write_is_unknown)
        self.assertEqual(client.get(b"0").value, value)
        for item in client.scan(keys_only=True):
            self.assertTrue(client.delete(item.key))
        client.put(b"again", value)

    def test_a_server_that_is_not_there(self):
        client = self.connect(f"127.0.0.1:{daemon.free_port()}")
        for call in (lambda: client.put(b"k", b"v"), lambda: list(client.scan()),
                     lambda: client.session().finish()):
            error = self.error(lodgekv.UnavailableError, call)
            self.assertEqual((error.reason, error.write_is_unknown), ("", True))

    def test_internal_errors(self):
        """gRPC's own, of a stream that was reset, has no reason; the server's has one."""
        for reason, unknown in (("", True), ("INTERNAL", False)):
            error = lodgekv.LodgeKVError(grpc.StatusCode.INTERNAL, "", lodgekv.ErrorInfo(reason))
            self.assertIs(error.write_is_unknown, unknown)

    def test_the_timeout(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            target = f"127.0.0.1:{silent.getsockname()[1]}"
            client = self.connect(target, timeout=0.1)
            for call in (lambda: client.put(b"k", b"v"), lambda: next(client.scan(timeout=0.1)),
                         lambda: client.session(timeout=0.1).finish()):
                error = self.error(lodgekv.DeadlineExceededError, call)
                self.assertTrue(error.write_is_unknown)

    def test_a_server_that_stopped(self):
        """Without a timeout a call ends when the server does not answer a ping."""
        self.serve()
        client = self.connect(self.server.server, timeout=None, keepalive_time=0.2,
                              keepalive_timeout=0.2)
        client.put(b"k", b"v")
        session = client.session()
        self.pause()
        self.error(lodgekv.UnavailableError, lambda: client.get(b"k"))
        self.error(lodgekv.UnavailableError, session.finish)

    def test_calls_that_the_server_does_not_serve(self):
        with python_client.scripted_server({}) as target:
            client = self.connect(target)
            self.error(lodgekv.UnimplementedError, lambda: client.get(b"k"))

    def test_a_closed_client(self):
        client = self.serve()
        client.close()
        client.close()
        with self.assertRaises(ValueError):
            client.get(b"k")


@unittest.skipUnless(certificates.have_openssl(), "no openssl command to make certificates")
class TlsTest(python_client.PythonClientTest):
    def setUp(self):
        self.workdir = self.folder()
        self.ca = certificates.Authority(self.workdir)

    def serve_tls(self, hosts=certificates.HERE, **flags):
        pair = self.ca.issue("server", hosts=hosts)
        server = daemon.Daemon(self.workdir, engine="dram", tls_cert_file=pair.cert,
                               tls_key_file=pair.key, **flags)
        own = self.ca.issue("client")
        server.ctl_flags = ["--tls-ca", self.ca.cert, "--tls-cert", own.cert, "--tls-key", own.key]
        if hosts is not certificates.HERE:
            server.ctl_flags += ["--tls-server-name", hosts[0].removeprefix("DNS:")]
        self.own = {"tls_cert": own.cert, "tls_key": str(own.key)}
        return self.enterContext(server).server

    def assert_served(self, target, **options):
        client = self.connect(target, **options)
        client.put(b"k", b"v")
        self.assertEqual(client.get(b"k").value, b"v")

    def assert_not_served(self, target, **options):
        with self.assertRaises(lodgekv.UnavailableError):
            self.connect(target, **options).get(b"k")

    def test_tls(self):
        target = self.serve_tls()
        self.assert_served(target, tls_ca=self.ca.cert)
        self.assert_served(target, credentials=grpc.ssl_channel_credentials(
            self.ca.cert.read_bytes()))
        self.assert_not_served(target)
        self.assert_not_served(target, tls_ca=certificates.Authority(self.workdir, "other").cert)

    def test_mutual_tls(self):
        target = self.serve_tls(tls_ca_file=self.ca.cert)
        self.assert_served(target, tls_ca=str(self.ca.cert), **self.own)
        self.assert_not_served(target, tls_ca=self.ca.cert)

    def test_the_name_of_the_server(self):
        target = self.serve_tls(["DNS:elsewhere.test"])
        self.assert_served(target, tls_ca=self.ca.cert, tls_server_name="elsewhere.test")
        self.assert_not_served(target, tls_ca=self.ca.cert)

    def test_options_that_do_not_go_together(self):
        ca = self.ca.cert
        for options in ({"tls_ca": ca, "tls_cert": ca}, {"tls_ca": ca, "tls_key": ca},
                        {"tls_cert": ca, "tls_key": ca}, {"tls_server_name": "name"},
                        {"credentials": grpc.ssl_channel_credentials(), "tls_ca": ca}):
            with self.subTest(options=list(options)), self.assertRaises(ValueError):
                lodgekv.Client("127.0.0.1:1", **options)
        with self.assertRaises(FileNotFoundError):
            lodgekv.Client("127.0.0.1:1", tls_ca=self.workdir / "none.pem")


class PackageTest(system_test.SystemTest):
    PROTOC = ["protoc", "-Iproto", "--include_imports", "-oclient/python/lodgekv/protos.binpb",
              "lodgekv/v1/kv.proto", "google/rpc/error_details.proto"]

    def test_the_messages_are_those_of_proto(self):
        path = self.folder() / "protos.binpb"
        command = [f"-o{path}" if word.startswith("-o") else word for word in self.PROTOC]
        outcome = daemon.run(*command, cwd=ROOT)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        built, kept = map(self.files_of_proto, (path, PACKAGE / "lodgekv/protos.binpb"))
        self.assertTrue(built == kept, "proto/ has changed; from the root of the repository: "
                        + " ".join(self.PROTOC))

    @staticmethod
    def files_of_proto(path):
        """Without those that come with protoc, which another version may have changed."""
        files = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes()).file
        return {file.name: file for file in files if (ROOT / "proto" / file.name).exists()}

    def test_every_call_of_the_service_is_there(self):
        files = self.files_of_proto(PACKAGE / "lodgekv/protos.binpb")
        methods = files["lodgekv/v1/kv.proto"].service[0].method
        self.assertGreater(len(methods), 6)
        for method in methods:
            name = re.sub(r"(?<=.)([A-Z])", r"_\1", method.name).lower()
            self.assertTrue(callable(getattr(lodgekv.Client, name, None)), name)

    def test_the_tour_of_the_readme(self):
        """Prints what its comments say."""
        server = self.daemon(self.folder(), engine="dram")
        readme = (PACKAGE / "README.md").read_text()
        blocks = re.findall(r"^```python\n(.*?)^```$", readme, re.M | re.S)
        code = "\n".join(blocks).replace("127.0.0.1:7411", server.server)
        outcome = daemon.run(sys.executable, "-B", "-c", code,
                             env=daemon.environment(PYTHONPATH=PACKAGE))
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        printed = re.findall(r"^ *print\(.*\)  # (.*)$", code, re.M)
        self.assertGreater(len(printed), 5)
        self.assertEqual(outcome.stdout.decode().splitlines(), printed)

    def test_the_version_is_the_projects(self):
        project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
        cmake = (ROOT / "CMakeLists.txt").read_text()
        self.assertEqual(project["version"], re.search(r"project\(\w+ VERSION (\S+)", cmake)[1])

    def test_what_would_be_installed(self):
        """By the setuptools that a virtual environment has, which check pyproject.toml."""
        workdir = self.folder(daemon.disk_folder())
        outcome = daemon.run(sys.executable, "-m", "venv", workdir / "venv")
        python = workdir / "venv/bin/python"
        if outcome.returncode != 0 or daemon.run(python, "-c", "import setuptools").returncode != 0:
            self.skipTest("no virtual environment with setuptools (Debian 12's python3-venv)")
        source = workdir / "source"
        daemon.run("cp", "-r", PACKAGE, source)
        outcome = daemon.run(python, "-B", "-c", "import setuptools; setuptools.setup()", "build",
                             "--build-lib", workdir / "lib", cwd=source, env=daemon.environment())
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        installed = {path.name for path in (workdir / "lib/lodgekv").iterdir()}
        kept = {path.name for path in (PACKAGE / "lodgekv").iterdir()} - {"__pycache__"}
        self.assertEqual(installed, kept)


if __name__ == "__main__":
    system_test.main()

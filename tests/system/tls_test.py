"""TLS and mutual TLS: allowed clients, what is refused at start, and rotation while serving."""

import contextlib
import ctypes
import datetime
import os
import shutil
import signal
import socket
import ssl
import time
import unittest
import warnings

import certificates
import daemon
import http2_client as http2
import metrics_page
import system_test

SECOND = datetime.timedelta(seconds=1)
HOUR = certificates.HOUR
# What a rotation may take: two looks of ours, one of gRPC, and a slow machine.
ROTATION_SECONDS = 20
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2


@unittest.skipUnless(certificates.have_openssl(), "no openssl command to make certificates")
class TlsTest(system_test.SystemTest):
    def setUp(self):
        self.workdir = self.folder()
        self.ca = certificates.Authority(self.workdir)
        self.pair = self.ca.issue("server")

    def serve(self, pair=None, ctl=(), **flags):
        """A daemon with that pair, and a lodgectl that trusts its CA."""
        pair = pair or self.pair
        server = daemon.Daemon(self.workdir, engine="dram", tls_cert_file=pair.cert,
                               tls_key_file=pair.key, **flags)
        server.ctl_flags = ["--tls-ca", self.ca.cert, *ctl]
        if "tls_ca_file" in flags:
            server.ctl_flags += self.own(self.ca.issue("client"))
        return self.enterContext(server)

    @staticmethod
    def own(pair):
        return ["--tls-cert", pair.cert, "--tls-key", pair.key]

    def put_with(self, server, *flags):
        """A Put by a client with these flags instead of the right ones."""
        return daemon.run(daemon.LODGECTL, "--server", server.server, *flags, "put", "k", "v",
                          env=daemon.environment())

    def assert_no_key(self, server):
        self.assert_error(server.ctl("get", "k"), 1, "not found")

    def connection(self, server, *, most=None):
        """A TLS connection as a client of gRPC makes it."""
        context = ssl.create_default_context(cafile=str(self.ca.cert))
        context.set_alpn_protocols(["h2"])
        if most is not None:
            context.set_ciphers("ALL:@SECLEVEL=0")
            with warnings.catch_warnings(action="ignore"):  # of versions that are out of date
                context.minimum_version = ssl.TLSVersion.TLSv1
                context.maximum_version = most
        host, port = server.server.rsplit(":", 1)
        plain = self.enterContext(socket.create_connection((host, int(port)), 10))
        return self.enterContext(context.wrap_socket(plain, server_hostname="localhost"))

    def served_serial(self, server):
        return self.connection(server).getpeercert()["serialNumber"]

    def await_true(self, condition, what, server):
        deadline = time.monotonic() + ROTATION_SECONDS
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"not seen: {what}\n{server.tail()}")
            time.sleep(0.1)

    # --- allowed clients ---

    def test_tls_serves_data_and_operator(self):
        server = self.serve()
        server.ask("put", "k", "v")
        self.assertEqual(server.ask("get", "k"), b"v\n")
        self.assertEqual(server.ask_json("status")["state"], "SERVER_STATE_SERVING")
        self.assertIn("transport=TLS ", server.tail())
        host, port = server.server.rsplit(":", 1)
        server.server = f"localhost:{port}"
        self.assertEqual(server.ask("get", "k"), b"v\n")
        environment = daemon.environment(LODGEKV_TLS_CA=self.ca.cert,
                                         LODGEKV_SERVER=f"{host}:{port}")
        outcome = daemon.run(daemon.LODGECTL, "get", "k", env=environment)
        self.assertEqual(outcome.stdout, b"v\n", outcome.stderr)

    def test_key_file_that_holds_a_certificate_too(self):
        """What is served is the certificate of tls_cert_file, whatever else the key's file has."""
        other = self.ca.issue("other")
        for name, text in (("behind", self.pair.key.read_text() + other.cert.read_text()),
                           ("before", other.cert.read_text() + self.pair.key.read_text())):
            with self.subTest(certificate=name):
                combined = self.workdir / f"{name}.pem"
                combined.write_text(text)
                combined.chmod(0o600)
                server = self.serve(certificates.Pair(self.pair.cert, combined))
                self.assertEqual(self.served_serial(server), self.pair.serial)

    def test_only_tls_1_2_and_1_3(self):
        server = self.serve()
        self.assertEqual(self.connection(server).version(), "TLSv1.3")
        for version, name in ((ssl.TLSVersion.TLSv1_3, "TLSv1.3"),
                              (ssl.TLSVersion.TLSv1_2, "TLSv1.2")):
            connection = self.connection(server, most=version)
            self.assertEqual((connection.version(), connection.selected_alpn_protocol()),
                             (name, "h2"))
        for version in (ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1):
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                self.connection(server, most=version)

    def test_plaintext_meets_tls(self):
        server = self.serve()
        self.assert_error(self.put_with(server), 4, "the server speaks TLS", "--tls-ca")
        load = daemon.run(daemon.LODGECTL, "--server", server.server, "load", "-", input=b"a\tb\n",
                          env=daemon.environment())
        self.assert_error(load, 4, "the server speaks TLS", "0 records were acknowledged")
        self.assert_no_key(server)

    def test_tls_meets_plaintext(self):
        server = self.daemon(self.workdir, engine="dram")
        self.assertIn("transport=plaintext", server.tail())
        self.assert_error(self.put_with(server, "--tls-ca", self.ca.cert), 4, "leave out --tls-ca")
        self.assert_no_key(server)

    def test_client_of_another_ca(self):
        other = certificates.Authority(self.workdir, "other")
        server = self.serve()
        self.assert_error(self.put_with(server, "--tls-ca", other.cert), 4, "not issued by the CA",
                          "--tls-ca")
        self.assert_no_key(server)

    def test_wrong_host_name(self):
        server = self.serve(self.ca.issue("elsewhere", hosts=("DNS:elsewhere.test",)),
                            ["--tls-server-name", "elsewhere.test"])
        trust = ["--tls-ca", self.ca.cert]
        self.assert_error(self.put_with(server, *trust), 4, "not one for '127.0.0.1'",
                          "--tls-server-name")
        self.assert_error(self.put_with(server, *trust, "--tls-server-name", "other.test"), 4,
                          "not one for 'other.test'")
        named = self.put_with(server, *trust, "--tls-server-name", "elsewhere.test")
        self.assertEqual(named.returncode, 0, named.stderr)

    def test_certificate_that_expires_while_served(self):
        server = self.serve(self.ca.issue("brief", end=4 * SECOND), tls_refresh="1s")
        server.ask("put", "before", "v")
        self.await_true(lambda: "has expired" in server.tail(), "the log of it", server)
        self.assert_error(self.put_with(server, "--tls-ca", self.ca.cert), 4,
                          "the server's certificate", "expired")

    def test_mutual_tls(self):
        address = f"127.0.0.1:{daemon.free_port()}"
        server = self.serve(tls_ca_file=self.ca.cert, metrics_listen=address)
        server.ask("put", "good", "v")
        refused = self.metric(address, "lodgekv_tls_handshake_failures_total")
        self.assertEqual(server.ask_json("status")["state"], "SERVER_STATE_SERVING")
        self.assertIn('transport="mutual TLS"', server.tail())
        other = certificates.Authority(self.workdir, "other")
        trust = ["--tls-ca", self.ca.cert]
        self.assert_error(self.put_with(server, *trust), 4, "asks for a client's certificate",
                          "--tls-cert")
        self.assert_error(self.put_with(server), 4, "the server speaks TLS")
        self.assert_error(self.put_with(server, *trust, *self.own(other.issue("stranger"))), 4,
                          "does not accept the client's certificate")
        expired = self.ca.issue("past", begin=-2 * HOUR, end=-HOUR)
        self.assert_error(self.put_with(server, *trust, *self.own(expired)), 4,
                          "the client's certificate expired")
        self.assert_no_key(server)
        # The log is written by a separate thread.
        self.await_true(lambda: "a TLS handshake failed" in server.tail(), "the warning", server)
        self.await_true(lambda: 'what="peer did not return a certificate"' in server.tail(),
                        "what failed", server)
        self.assertGreaterEqual(self.metric(address, "lodgekv_tls_handshake_failures_total"),
                                refused + 4)

    def test_mutual_tls_refuses_whatever_the_client_says(self):
        """A client without checks of its own: only the server decides."""
        server = self.serve(tls_ca_file=self.ca.cert)
        other = certificates.Authority(self.workdir, "other")
        pairs = {"none": None, "stranger": other.issue("stranger"),
                 "expired": self.ca.issue("past", begin=-2 * HOUR, end=-HOUR)}
        for name, pair in pairs.items():
            with self.subTest(client=name):
                self.assertFalse(self.greeted(server, pair))
        self.assertTrue(self.greeted(server, self.ca.issue("friend")))

    def greeted(self, server, pair):
        """Whether the server begins to speak HTTP/2 with a client that shows this pair."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        if pair is not None:
            context.load_cert_chain(pair.cert, pair.key)
        host, port = server.server.rsplit(":", 1)
        with socket.create_connection((host, int(port)), 10) as plain:
            with contextlib.suppress(ssl.SSLError, ConnectionError):
                with context.wrap_socket(plain) as connection:
                    return connection.recv(9) != b""
        return False

    def test_a_flood_of_frames_is_ended(self):
        server = self.serve()
        connection, begin = self.connection(server), time.monotonic()
        connection.sendall(http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0))
        with self.assertRaises(OSError):
            while time.monotonic() - begin < 20:
                connection.sendall(http2.FRAMES_OF_NO_REQUEST["priorities"] * 5_000)
        server.ask("put", "still", "here")

    # --- refused before anything else is touched ---

    def refuse(self, code, *parts, cert=None, key=None, flags=(), **options):
        pool = self.workdir / "pool"
        words = ["--pool", pool, "--tls-cert-file", cert or self.pair.cert, "--tls-key-file",
                 key or self.pair.key, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
                 "--metrics-listen", "off", *flags]
        outcome = daemon.run(daemon.LODGEKVD, *words, env=daemon.environment(), **options)
        text = (outcome.stderr + outcome.stdout).decode(errors="replace")
        lines = [line for line in text.splitlines()
                 if line.startswith("lodgekvd: ") or " error " in line]
        self.assertEqual((outcome.returncode, len(lines)), (code, 1), text)
        for part in parts:
            self.assertIn(str(part), lines[0])
        self.assertFalse(pool.exists())

    def test_files_that_are_refused_at_start(self):
        wrong = self.workdir / "wrong.pem"
        wrong.write_text("no PEM\n")
        empty = self.workdir / "empty.pem"
        empty.touch()
        broken = self.workdir / "broken.pem"
        broken.write_text(self.pair.cert.read_text().replace("M", "N", 3))
        encrypted = self.workdir / "encrypted.key"
        certificates.openssl("pkey", "-in", self.pair.key, "-aes256", "-passout", "pass:x", "-out",
                             encrypted)
        pipe = self.workdir / "pipe.pem"
        os.mkfifo(pipe)
        large = self.workdir / "large.pem"
        large.write_text(self.pair.cert.read_text() + "\n" * (1 << 20))
        another = self.ca.issue("another")
        missing = self.workdir / "none.pem"
        expired = self.ca.issue("past", begin=-2 * HOUR, end=-HOUR)
        future = self.ca.issue("future", begin=HOUR)
        weak = self.weak_pair()
        no_cert = "holds no certificate in PEM format"
        for parts, files in (
                (("tls_cert_file", missing, "No such file"), {"cert": missing}),
                (("tls_key_file", missing, "No such file"), {"key": missing}),
                (("tls_key_file", another.key, "does not match", self.pair.cert, "CN=server"),
                 {"key": another.key}),
                (("tls_cert_file", expired.cert, "expired at", "CN=past"),
                 {"cert": expired.cert, "key": expired.key}),
                (("tls_cert_file", future.cert, "not valid before"),
                 {"cert": future.cert, "key": future.key}),
                (("tls_cert_file", wrong, no_cert), {"cert": wrong}),
                (("tls_cert_file", empty, no_cert), {"cert": empty}),
                (("tls_cert_file", broken, "certificate 1"), {"cert": broken}),
                (("tls_key_file", wrong, "holds no private key"), {"key": wrong}),
                (("tls_key_file", encrypted, "is encrypted"), {"key": encrypted}),
                (("tls_cert_file", self.workdir, "directory"), {"cert": self.workdir}),
                (("tls_cert_file", pipe, "must be a regular file"), {"cert": pipe}),
                (("tls_key_file", pipe, "must be a regular file"), {"key": pipe}),
                (("tls_cert_file", large, "larger than 1048576 bytes"), {"cert": large}),
                (("tls_cert_file", weak.cert, "refuses", "too small"),
                 {"cert": weak.cert, "key": weak.key}),
                (("tls_ca_file", missing, "No such file"), {"flags": ["--tls-ca-file", missing]}),
                (("tls_ca_file", wrong, no_cert), {"flags": ["--tls-ca-file", wrong]}),
                (("tls_ca_file", expired.cert, "expired at"),
                 {"flags": ["--tls-ca-file", expired.cert]})):
            with self.subTest(parts=parts):
                self.refuse(1, *parts, **files)
                flags = [*files.get("flags", ()), "--check-config"]
                self.refuse(2, *parts, **(files | {"flags": flags}))

    def weak_pair(self):
        pair = certificates.Pair(self.workdir / "weak.pem", self.workdir / "weak.key")
        certificates.openssl("req", "-x509", "-newkey", "rsa:1024", "-noenc", "-keyout", pair.key,
                             "-out", pair.cert, "-days", "1", "-subj", "/CN=weak")
        return pair

    def test_unreadable_key(self):
        self.pair.key.chmod(0)
        libc = ctypes.CDLL(None)

        def hold_to_permissions():  # root, too
            for capability in CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH:
                libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        self.refuse(1, "tls_key_file", self.pair.key, "Permission denied",
                    preexec_fn=hold_to_permissions)

    def test_fields_that_do_not_go_together(self):
        files = {"--tls-cert-file": self.pair.cert, "--tls-key-file": self.pair.key,
                 "--tls-ca-file": self.ca.cert}
        for flag, complaint in (("--tls-cert-file", "tls_cert_file is given without tls_key_file"),
                                ("--tls-key-file", "tls_key_file is given without tls_cert_file"),
                                ("--tls-ca-file", "tls_ca_file is given without tls_cert_file")):
            outcome = daemon.run(daemon.LODGEKVD, "--engine", "dram", flag, files[flag],
                                 "--check-config", env=daemon.environment())
            self.assert_error(outcome, 2, complaint)

    def test_addresses_that_others_can_reach(self):
        def check(*flags):
            return daemon.run(daemon.LODGEKVD, "--engine", "dram", *flags, "--check-config",
                              env=daemon.environment())
        for flag in ("--listen", "--admin-listen"):
            away = [flag, "0.0.0.0:7999"]
            self.assert_error(check(*away), 2, "0.0.0.0:7999", "tls_cert_file", "tls_key_file",
                              "allow_plaintext")
            for leave in (["--allow-plaintext"],
                          ["--tls-cert-file", self.pair.cert, "--tls-key-file", self.pair.key]):
                outcome = check(*away, *leave)
                self.assertEqual(outcome.returncode, 0, outcome.stderr)

    def test_lodgectl_files(self):
        missing = self.workdir / "none.pem"

        def run(*flags):
            return daemon.run(daemon.LODGECTL, *flags, "get", "k", env=daemon.environment())
        trust = ["--tls-ca", self.ca.cert]
        self.assert_error(run("--tls-ca", missing), 2, "--tls-ca", missing.name, "No such file")
        self.assert_error(run(*trust, "--tls-cert", self.pair.cert), 2, "--tls-key")
        self.assert_error(run("--tls-server-name", "x"), 2, "--tls-ca")
        server = self.serve()
        another = self.ca.issue("another")
        mixed = self.put_with(server, *trust, "--tls-cert", another.cert, "--tls-key",
                              self.pair.key)
        self.assert_error(mixed, 4, "key does not match its certificate")

    # --- rotation ---

    def live_pair(self, pair=None):
        """A copy that a test may replace."""
        live = certificates.Pair(self.workdir / "live.pem", self.workdir / "live.key")
        self.rotate(live, pair or self.pair)
        return live

    def rotate(self, live, pair):
        for source, target in zip(pair, live):
            shutil.copy(source, target.with_suffix(".next"))
            os.replace(target.with_suffix(".next"), target)

    def serve_live(self, **flags):
        live = self.live_pair()
        address = f"127.0.0.1:{daemon.free_port()}"
        server = self.serve(live, **({"tls_refresh": "1s", "metrics_listen": address} | flags))
        return live, server, address

    @staticmethod
    def metric(address, name):
        return metrics_page.read(address).value(name)

    def test_rotation_while_serving(self):
        live, server, address = self.serve_live()
        self.assertEqual(self.served_serial(server), self.pair.serial)
        expiry = "lodgekv_tls_certificate_expiry_timestamp_seconds"
        self.assertEqual(self.metric(address, expiry), self.pair.expiry)
        load = server.start_ctl("load", "--batch", "1", "-", stdin=daemon.subprocess.PIPE)
        load.stdin.write(b"before\t1\n")
        load.stdin.flush()
        fresh = self.ca.issue("fresh", end=48 * HOUR)
        self.rotate(live, fresh)
        self.await_true(lambda: self.served_serial(server) == fresh.serial, "the new serial",
                        server)
        out, err = load.communicate(b"after\t2\n", timeout=60)
        self.assertEqual((load.returncode, err), (0, b""), out)
        self.assertEqual(server.ask("get", "after"), b"2\n")
        self.assertEqual(self.metric(address, expiry), fresh.expiry)
        self.assertEqual(self.metric(address, "lodgekv_tls_reloads_total"), 1)
        self.assertEqual(self.metric(address, "lodgekv_tls_reload_failures_total"), 0)
        self.assertIn("rotated TLS files were loaded", server.tail())

    def test_bad_rotation_keeps_what_is_served(self):
        live, server, address = self.serve_live()
        fresh = self.ca.issue("fresh")
        expired = self.ca.issue("past", begin=-2 * HOUR, end=-HOUR)
        for pair, reason in ((certificates.Pair(fresh.cert, self.pair.key), "does not match"),
                             (expired, "expired at")):
            with self.subTest(reason=reason):
                self.rotate(live, pair)
                self.await_true(lambda: reason in server.tail(), "the warning", server)
                self.assertEqual(self.metric(address, "lodgekv_tls_reload_failing"), 1)
                time.sleep(2.5)  # for gRPC's own watcher to go wrong in
                self.assertEqual(self.served_serial(server), self.pair.serial)
                server.ask("put", "k", "v")
        live.cert.unlink()
        self.await_true(lambda: "No such file" in server.tail(), "the warning", server)
        self.assertEqual(self.served_serial(server), self.pair.serial)
        warnings = [line for line in server.log.read_text().splitlines() if " warning " in line
                    and "TLS files were not loaded" in line]
        self.assertEqual(len(warnings), 3, server.tail())
        self.assertEqual(self.metric(address, "lodgekv_tls_reload_failures_total"), 3)
        self.rotate(live, fresh)
        self.await_true(lambda: self.served_serial(server) == fresh.serial, "the new serial",
                        server)
        self.assertEqual(self.metric(address, "lodgekv_tls_reload_failing"), 0)

    def test_rotation_of_the_clients_ca(self):
        authority = self.workdir / "clients.pem"
        shutil.copy(self.ca.cert, authority)
        server = self.serve(tls_ca_file=authority, tls_refresh="1s")
        other = certificates.Authority(self.workdir, "other")
        old, new = self.ca.issue("old-client"), other.issue("new-client")
        self.assertTrue(self.greeted(server, old))
        self.assertFalse(self.greeted(server, new))
        shutil.copy(other.cert, authority)
        self.await_true(lambda: self.greeted(server, new), "the new CA", server)
        self.assertFalse(self.greeted(server, old))

    def test_sighup_looks_at_once(self):
        live, server, _ = self.serve_live(tls_refresh="1h")
        fresh = self.ca.issue("fresh")
        self.rotate(live, fresh)
        server.process.send_signal(signal.SIGHUP)
        self.await_true(lambda: self.served_serial(server) == fresh.serial, "the new serial",
                        server)


if __name__ == "__main__":
    system_test.main()

"""lodgectl against the real daemon: every command, its output, its errors and exit codes.

On the dram engine, so that it needs no pool; what lodgectl says does not depend on the engine.
"""

import contextlib
import functools
import json
import os
import pty
import socketserver
import threading
import time

import daemon
import records
import system_test

BINARY = bytes(range(256))


class CliTest(system_test.SystemTest):
    def setUp(self):
        self.workdir = self.folder()
        self.server = self.daemon(self.workdir, engine="dram")

    def ctl(self, *words, **options):
        return self.server.ctl(*words, **options)

    def assert_prints(self, output, *words, **options):
        self.assertEqual(self.server.ask(*words, **options), output)

    # --- put, get, delete ---

    def test_put_get_delete(self):
        self.assertRegex(self.server.ask("put", "k", "v"), rb"^ok, version [1-9]\d*\n$")
        self.assert_prints(b"v\n", "get", "k")
        self.assert_prints(b"v", "get", "--raw", "k")
        self.assert_prints(b"", "delete", "k")
        self.assert_error(self.ctl("get", "k"), 1, "get: not found: k")
        self.assert_error(self.ctl("delete", "k"), 1, "delete: not found: k")

    def test_keys_with_dashes_and_empty_values(self):
        self.server.ask("put", "--", "--prefix", "")
        self.assert_prints(b"\n", "get", "--", "--prefix")

    def test_versions_and_conditions(self):
        self.assert_error(self.ctl("put", "k", "v", "--if-present"), 3, "FAILED_PRECONDITION",
                          "CONDITION_FAILED", "found=false")
        self.server.ask("put", "k", "v1", "--if-absent")
        self.assert_error(self.ctl("put", "k", "v2", "--if-absent"), 3, "found=true")
        version = self.server.ask("get", "k", "--with-version").split(b"\t")[0]
        self.assert_error(self.ctl("put", "k", "v2", "--if-version", int(version) + 1), 3,
                          f"version={int(version)}")
        self.server.ask("put", "k", "v2", "--if-version", int(version))
        self.assert_error(self.ctl("delete", "k", "--if-version", int(version)), 3)
        self.server.ask("put", "k", "v3", "--if-present")
        self.assert_prints(b"v3\n", "get", "k")

    def test_ttl(self):
        self.server.ask("put", "short", "v", "--ttl", "300ms")
        self.server.ask("put", "long", "v", "--ttl", "1h")
        line = json.loads(self.server.ask("dump", "--bare", "--format", "json").split(b"\n")[0])
        self.assertEqual(line["key"], "long")
        self.assertAlmostEqual(line["expire_unix_ms"] / 1000, time.time() + 3600, delta=60)
        time.sleep(0.4)
        self.assertEqual(self.ctl("get", "short").returncode, 1)
        self.assert_prints(b"v\n", "get", "long")

    def test_values_from_files(self):
        path = self.workdir / "value"
        path.write_bytes(BINARY * 1000)
        self.server.ask("put", "file", "--value-file", path)
        self.assert_prints(BINARY * 1000, "get", "--raw", "file")
        self.server.ask("put", "stdin", "--value-file", "-", input=b"from\nstdin\n")
        self.assert_prints(b"from\nstdin\n", "get", "--raw", "stdin")
        self.assert_error(self.ctl("put", "k", "--value-file", self.workdir / "none"), 2,
                          "none cannot be read: No such file")

    def test_hex(self):
        self.server.ask("--hex", "put", BINARY.hex(), "00FF")
        self.assert_prints(b"00ff\n", "--hex", "get", BINARY.hex())
        self.assert_prints(BINARY.hex().encode() + b"\t00ff\n", "--hex", "scan", "--prefix", "0001")
        self.assert_error(self.ctl("--hex", "get", "0g"), 2, "'g' is not a hexadecimal digit")
        self.assert_error(self.ctl("--hex", "get", "000"), 2, "3 hexadecimal digits")

    # --- scan ---

    def test_scan(self):
        for key in ("a", "b1", "b2", "b3", "c"):
            self.server.ask("put", key, "v" + key)
        self.assert_prints(b"a\tva\nb1\tvb1\nb2\tvb2\nb3\tvb3\nc\tvc\n", "scan")
        self.assert_prints(b"b1\nb2\nb3\n", "scan", "--prefix", "b", "--keys-only")
        self.assert_prints(b"b3\nb2\n", "scan", "--prefix", "b", "--keys-only", "--reverse",
                           "--limit", "2")
        self.assert_prints(b"b2\nb3\n", "scan", "--keys-only", "--start", "b2", "--end", "c")
        self.assert_prints(b"", "scan", "--start", "x")

    # --- load and dump ---

    def load_lines(self, name, content, *words):
        path = self.workdir / name
        path.write_bytes(content)
        return self.ctl("load", path, *words)

    def test_every_byte_round_trips_in_every_format(self):
        pairs = [(bytes([byte]) + BINARY[byte:byte + 3], BINARY[:byte]) for byte in range(256)]
        content = b"".join(records.line_of(*pair) + b"\n" for pair in pairs)
        self.assertEqual(self.load_lines("a.tsv", content).returncode, 0)
        self.assert_prints(content, "scan")
        for words, name in ((("dump", "--hex"), "b.tsv"), (("dump", "--format", "json"), "c.jsonl"),
                            (("dump", "--format", "json", "--hex"), "d.json")):
            copy = self.server.ask(*words)
            with self.subTest(words=words), daemon.Daemon(self.folder(), engine="dram") as other:
                (self.workdir / name).write_bytes(copy)
                other.ask("load", self.workdir / name, *(["--hex"] if "--hex" in words else []))
                self.assertEqual(other.ask("scan"), content)

    def test_load_from_standard_input(self):
        out = self.server.ask("load", "-", input=b"k\tv\nno value\n")
        self.assertRegex(out, rb"^loaded 2 records in [\d.]+ s \(\d+/s\)\n$")
        self.assert_prints(b"k\tv\nno value\t\n", "scan")
        self.server.ask("load", "-", "--format", "json", input=b'{"key":"j","value":"\\u00e9"}')
        self.assert_prints("é\n".encode(), "get", "j")

    def test_the_last_of_several_values_stays(self):
        lines = b"".join(b"k%d\t%d\n" % (number % 10, number) for number in range(1000))
        for words in (("--batch", 1, "--concurrency", 50), ("--batch", 3), ("--batch", 7)):
            self.assertEqual(self.load_lines("twice.tsv", lines, *words).returncode, 0)
            self.assert_prints(b"".join(b"k%d\t99%d\n" % (n, n) for n in range(10)), "scan")
            self.server.ask("load", "--delete", self.workdir / "twice.tsv")
            self.assert_prints(b"", "scan")

    def test_a_dump_that_was_cut_is_an_error(self):
        self.server.ask("load", "-", input=b"".join(b"key%d\tv%d\n" % (n, n) for n in range(9)))
        for words, name in (((), "a.tsv"), (("--format", "json"), "a.jsonl")):
            dump = self.server.ask("dump", *words)
            lines = dump.splitlines(keepends=True)
            self.assertEqual(len(lines), 11)
            with self.subTest(words=words):
                self.assertIn(b"loaded 9 records", self.load_lines(name, dump).stdout)
                self.assert_error(self.load_lines(name, b"".join(lines[:-1])), 2, f"{name}:10: ",
                                  "its end mark is missing", "9 records were acknowledged")
                self.assert_error(self.load_lines(name, b"".join(lines[:5])[:-3]), 2, f"{name}:5: ",
                                  "cut off inside this line", "3 records were acknowledged")
                self.assert_error(self.load_lines(name, b"".join(lines[:5])[:-3], "--atomic"), 2,
                                  "cut off", "0 records were acknowledged")
                self.assert_error(self.load_lines(name, dump[:-4]), 2, f"{name}:11: ",
                                  "cut off inside this line", "9 records were acknowledged")
                self.assert_error(self.load_lines(name, b"".join(lines[:4] + lines[5:])), 2,
                                  "counts 9 records, and 8 were read")
        bare = self.server.ask("dump", "--bare")
        self.assertEqual(len(bare.splitlines()), 9)
        self.assertIn(b"loaded 9 records", self.load_lines("bare.tsv", bare).stdout)

    def test_what_is_no_record_is_no_key(self):
        for name, content, message in (("a.csv", b"k\tv\n", "CSV by its name"),
                                       ("a.txt", b"id,name\n1,Ada\n", "only TSV can be read"),
                                       ("a.txt", b"# comment\nk\tv\n", "begins with #"),
                                       ("a.txt", b"\xef\xbb\xbfk\tv\n", "byte order mark"),
                                       ("a.txt", b'{"key":"k"}\n', "--format json"),
                                       ("a.txt", b"k\tv\r\n", "carriage return")):
            with self.subTest(content=content):
                self.assert_error(self.load_lines(name, content), 2, name, message)
        self.assert_error(self.ctl("load", "/dev/zero"), 2, "line is longer than")
        self.assert_prints(b"", "scan")
        self.assertEqual(self.load_lines("a.txt", b"k\tv\n\n\n").returncode, 0)
        self.server.ask("put", "#k", "v")
        self.assert_prints(b"\\x23k\tv\nk\tv\n", "scan")

    def test_what_a_scan_prints_loads_whatever_its_first_key_is(self):
        for key in (b"\xef\xbb\xbfk", b"\xff\xfe", b"\xfe\xff\x00"):
            with self.subTest(key=key):
                self.server.ask("put", "--hex", key.hex(), "00")
                line = records.line_of(key, b"\x00") + b"\n"
                self.assert_prints(line, "scan")
                self.server.ask("delete", "--hex", key.hex())
                self.assertEqual(self.load_lines("a.tsv", line).returncode, 0)
                self.assert_prints(b"00\n", "get", "--hex", key.hex())
                self.server.ask("delete", "--hex", key.hex())

    def test_an_interrupted_load_says_what_is_in(self):
        for number, code in ((daemon.signal.SIGINT, 130), (daemon.signal.SIGTERM, 143)):
            process = self.server.start_ctl("load", "-", "--batch", "10",
                                            stdin=daemon.subprocess.PIPE)
            process.stdin.write(b"".join(b"%d-%02d\tv\n" % (code, n) for n in range(95)))
            process.stdin.flush()
            deadline = time.monotonic() + 10
            while len(self.server.ask("scan", "--prefix", code).splitlines()) < 90:
                self.assertLess(time.monotonic(), deadline)
            process.send_signal(number)
            process.wait(10)
            error = process.stderr.read().decode()
            self.assertEqual(process.returncode, code, error)
            self.assertEqual(error, f"lodgectl: load: interrupted by {number.name}; 90 records "
                             "were acknowledged\n")
            process.communicate()

    def test_a_bad_line_is_named(self):
        outcome = self.load_lines("bad.tsv", b"a\t1\nb\t2\nc\\q\t3\nd\t4\n")
        self.assert_error(outcome, 2, "bad.tsv:3: unknown escape", "2 records were acknowledged")
        self.assert_prints(b"a\t1\nb\t2\n", "scan")
        outcome = self.load_lines("bad.json", b'{"key":"k"}\n{"kee":"k"}\n')
        self.assert_error(outcome, 2, 'bad.json:2: unknown field "kee"')

    def test_atomic_is_all_or_nothing(self):
        self.assertEqual(self.load_lines("all.tsv", b"a\nb\nc\n", "--atomic").returncode, 0)
        outcome = self.load_lines("bad.tsv", b"x\ny\t\t\n", "--atomic")
        self.assert_error(outcome, 2, "bad.tsv:2", "0 records were acknowledged")
        lines = b"".join(b"many%d\n" % number for number in range(1025))
        outcome = self.load_lines("many.tsv", lines, "--atomic")
        self.assert_error(outcome, 4, "INVALID_ARGUMENT", "more of them", "1024",
                          "0 records were acknowledged")
        self.assert_prints(b"a\nb\nc\n", "scan", "--keys-only")

    def test_expired_records_are_left_out(self):
        out = self.server.ask("load", "-", "--format", "json",
                              input=b'{"key":"old","expire_unix_ms":1000}\n{"key":"new"}\n')
        self.assertIn(b"loaded 1 records", out)
        self.assertIn(b"left out 1 records that have expired", out)
        self.assert_prints(b"new\t\n", "scan")

    def test_local_files_that_do_not_work(self):
        self.assert_error(self.ctl("load", self.workdir / "none"), 2, "cannot read", "none")
        self.assert_error(self.ctl("load", self.workdir), 2, "cannot read")
        self.assert_error(self.ctl("load", "-", "--ack-log", self.workdir / "no/log", input=b""), 2,
                          "cannot open", "no/log")
        self.assert_error(self.ctl("load", "-", "--ack-log", "/dev/full", input=b"k\tv\n"), 2,
                          "cannot write /dev/full", "1 records were acknowledged")

    def test_output_that_cannot_be_written(self):
        self.server.ask("put", "k", "v")
        for words in (("get", "k"), ("dump",), ("scan",), ("stats",)):
            with self.subTest(words=words), open("/dev/full", "wb") as full:
                command = self.server.ctl_command(*words)
                outcome = daemon.subprocess.run(command, stdout=full, stderr=daemon.subprocess.PIPE,
                                                check=False)
                self.assert_error(outcome, 2, "cannot write the output", "No space left")

    def test_progress_on_a_terminal_only(self):
        lines = b"".join(b"key%d\t%s\n" % (number, b"v" * 100) for number in range(200_000))
        outcome = self.load_lines("many.tsv", lines)
        self.assertEqual(outcome.stderr, b"")
        shown, code = self.on_a_terminal("load", self.workdir / "many.tsv", "--batch", "16",
                                         stdout=daemon.subprocess.DEVNULL)
        self.assertEqual(code, 0)
        self.assertRegex(shown, rb"\[=+ *\] +\d+ %  \d+ acknowledged, \d+/s")

    def on_a_terminal(self, *words, **options):
        """What a terminal is given to show, and the exit code."""
        ours, theirs = pty.openpty()
        with open(ours, "rb", buffering=0) as screen:
            process = daemon.subprocess.Popen(self.server.ctl_command(*words),
                                              **{"stdout": theirs, "stderr": theirs} | options)
            os.close(theirs)
            shown = b""
            with contextlib.suppress(OSError):  # the terminal is gone with the process
                while piece := screen.read(4096):
                    shown += piece
            return shown.replace(b"\r\n", b"\n"), process.wait()

    def test_a_terminal_is_given_no_commands(self):
        evil = b"\x1b[2J\r\x7f\xc2\x9b2J\xff\xe2\x80\xae"
        shown = rb"\x1b[2J\x0d\x7f\xc2\x9b2J\xff\xe2\x80\xae"
        value = b"gr\xc3\xbc\xc3\x9f\n" + evil
        self.server.ask("put", b"k" + evil, value)
        self.assertEqual(self.on_a_terminal("get", b"k" + evil),
                         (b"gr\xc3\xbc\xc3\x9f\n" + shown + b"\n", 0))
        in_scan = shown.replace(rb"\x0d", rb"\r")
        self.assertEqual(self.on_a_terminal("scan"),
                         (b"k" + in_scan + b"\tgr\xc3\xbc\xc3\x9f\\n" + in_scan + b"\n", 0))
        self.assertEqual(self.on_a_terminal("get", b"none" + evil)[0],
                         b"lodgectl: get: not found: none" + in_scan + b"\n")
        self.assert_prints(value + b"\n", "get", b"k" + evil)
        self.assertEqual(self.ctl("get", b"none" + evil).stderr,
                         b"lodgectl: get: not found: none" + in_scan + b"\n")

    # --- the operator's commands ---

    def test_status_stats_engines_check(self):
        self.server.ask("load", "-", input=b"a\nb\nc\n")
        self.assertRegex(self.server.ask("status"), rb"(?m)^state +serving$")
        self.assertRegex(self.server.ask("status"), rb"(?m)^engine +dram$")
        self.assertRegex(self.server.ask("stats"), rb"(?m)^keys +3$")
        self.assertEqual(self.server.key_count(), 3)
        self.assertEqual(self.server.ask_json("stats", "--skip-key-count")["keys"], "0")
        self.assertRegex(self.server.ask("engines"), rb"(?m)^dram \(serving\)$")
        self.assertRegex(self.server.ask("check"), rb"(?m)^sound +true$")
        self.assertIs(self.server.ask_json("check")["sound"], True)

    # --- errors ---

    def test_usage(self):
        cases = {
            (): "A subcommand is required",
            ("frobnicate",): "unknown command 'frobnicate'",
            ("get",): "KEY is required",
            ("get", "k", "x"): "not expected: x",
            ("put", "k"): "VALUE or --value-file is required",
            ("put", "k", "v", "--value-file", "f"): "excludes",
            ("put", "k", "v", "--if-absent", "--if-present"): "excludes",
            ("put", "k", "v", "--if-version", "0"): "--if-version: '0' is not a whole number",
            ("put", "k", "v", "--if-version", "-1"): "--if-version: '-1' is not",
            ("put", "k", "v", "--ttl", "5"): "'5' is not a duration",
            ("put", "k", "v", "--ttl", "0s"): "not a duration of 1ms or more",
            ("get", "k", "--timeout", "soon"): "'soon' is not a duration",
            ("scan", "--limit", "-1"): "--limit: '-1' is not a whole number of 0 or more",
            ("scan", "--limit", "x"): "--limit: 'x' is not a whole number of 0 or more",
            ("load", "f", "--batch", "0"): "--batch: '0' is not a whole number from 1 to 65536",
            ("get", "k", "--json"): "--json: get does not take it",
            ("dump", "--json"): "it has --format json",
            ("status", "--cost"): "--cost: status does not take it",
            ("stats", "--hex"): "--hex: stats does not take it",
            ("dump", "--format", "xml"): "--format",
        }
        for words, message in cases.items():
            with self.subTest(words=words):
                self.assert_error(self.ctl(*words), 2, "lodgectl: usage: ", message)

    def test_help_names_the_exit_codes(self):
        text = self.server.ask("--help").decode()
        for code, meaning in ((0, "done"), (1, "not found"), (2, "usage"), (3, "condition"),
                              (4, "server")):
            self.assertRegex(text, rf"(?m)^ +{code} .*{meaning}")

    def test_help_of_a_command_has_the_options_of_all(self):
        text = self.server.ask("scan", "--help").decode()
        for option in ("--limit N", "Global options:", "--server", "--timeout DURATION", "--hex"):
            self.assertIn(option, text)

    def test_version_names_commit_and_build(self):
        for program in (daemon.LODGECTL, daemon.LODGEKVD):
            outcome = daemon.run(program, "--version")
            self.assertRegex(outcome.stdout.decode(),
                             rf"^{program.name} \d+\.\d+\.\d+ \(commit (\w+(-dirty)?), "
                             r"\w*, (GCC|Clang) [\d.]+.*\)\n$")
            self.assertEqual(outcome.returncode, 0)

    def test_both_programs_read_the_same_durations(self):
        for text, good in (("1m30s", True), ("2 min", True), ("1.5s", True), ("250ms", True),
                           ("10m", True), ("5", False), ("1s1s", False), ("1d", False),
                           ("-1s", False)):
            with self.subTest(text=text):
                of_daemon = daemon.run(daemon.LODGEKVD, "--check-config", "--engine", "dram",
                                       f"--drain-grace={text}", env=daemon.environment())
                self.assertEqual(of_daemon.returncode == 0, good, of_daemon.stderr)
                self.assertEqual(self.ctl("put", "k", "v", f"--ttl={text}").returncode == 0, good)

    def test_whole_numbers_are_printed_whole(self):
        self.server.ask("load", "-", input=b"".join(b"key%d\t%s\n" % (n, b"v" * 100)
                                                    for n in range(20_000)))
        for line in self.server.ask("stats").splitlines():
            self.assertNotRegex(line, rb"\de[+-]?\d")

    def test_a_wrong_port_says_what_it_met(self):
        metrics = f"127.0.0.1:{daemon.free_port()}"
        server = self.daemon(self.folder(), engine="dram", metrics_listen=metrics)
        ctl = functools.partial(daemon.run, daemon.LODGECTL)
        self.assert_error(ctl("--server", metrics, "get", "k"), 4,
                          f"what answers at {metrics} speaks plain HTTP", "check the port")
        self.assert_error(ctl("--admin", metrics, "status"), 4, "speaks plain HTTP")
        self.assert_error(ctl("--server", server.admin, "get", "k"), 4, "UNIMPLEMENTED",
                          "does not serve KvService", "--server")
        self.assert_error(ctl("--admin", server.server, "status"), 4, "UNIMPLEMENTED",
                          "does not serve AdminService", "--admin")
        with self.banner(b"SSH-2.0-\x1bOpenSSH\r\n") as other:
            self.assert_error(ctl("--server", other, "get", "k"), 4, "speaks no gRPC",
                              "'SSH-2.0-?OpenSSH'")

    @contextlib.contextmanager
    def banner(self, text):
        """An address where each connection is greeted with `text`, whatever the others do."""
        class Greeter(socketserver.BaseRequestHandler):
            def handle(self):
                self.request.settimeout(2)
                with contextlib.suppress(OSError):
                    self.request.sendall(text)
                    while self.request.recv(4096):
                        pass

        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Greeter) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                yield "127.0.0.1:%d" % server.server_address[1]
            finally:
                server.shutdown()
                thread.join()

    def test_an_address_without_a_port_means_ours(self):
        self.assert_error(daemon.run(daemon.LODGECTL, "--server", "127.9.9.9", "get", "k"), 4,
                          "127.9.9.9:7411")
        self.assert_error(daemon.run(daemon.LODGECTL, "--admin", "127.9.9.9", "status"), 4,
                          "127.9.9.9:7412")

    def test_a_number_beyond_all_ports_is_refused(self):
        """gRPC would connect to the port of its lower 16 bits, here the server's own."""
        host, port = self.server.server.rsplit(":", 1)
        beyond = f"{host}:{int(port) + 65536}"
        self.assert_error(daemon.run(daemon.LODGECTL, "--server", beyond, "put", "k", "v"), 2,
                          "--server", beyond, "no possible port")
        self.assert_error(daemon.run(daemon.LODGECTL, "--admin", beyond, "status"), 2, "--admin")
        self.assert_prints(b"", "scan")

    def test_refusals_name_the_limit_and_its_value(self):
        self.assert_error(self.ctl("put", "", "v"), 4, "INVALID_ARGUMENT", "key", "empty")
        self.assert_error(self.ctl("put", "k" * 4097, "v"), 4, "INVALID_ARGUMENT", "4097", "4096")
        self.server.ask("put", "k" * 4096, "v")
        path = self.workdir / "value"
        path.write_bytes(b"v" * (daemon.MIB + 1))
        self.assert_error(self.ctl("put", "k", "--value-file", path), 4, "INVALID_ARGUMENT",
                          "1048577", "1048576")
        path.write_bytes(b"v" * daemon.MIB)
        self.server.ask("put", "k", "--value-file", path)

    def test_no_server(self):
        self.server.kill()
        for words in (("get", "k"), ("put", "k", "v"), ("delete", "k"), ("dump",), ("status",),
                      ("stats",), ("engines",), ("check",)):
            with self.subTest(words=words):
                self.assert_error(self.ctl(*words), 4, f"{words[0]}: UNAVAILABLE", "refused")
        for words in ((), ("--batch", "1"), ("--atomic",), ("--delete",)):
            with self.subTest(words=words):
                outcome = self.ctl("load", "-", *words, input=b"a\t1\nb\t2\n")
                self.assert_error(outcome, 4, "load: UNAVAILABLE", "refused",
                                  "0 records were acknowledged: nothing was changed")

    def test_a_server_that_does_not_answer(self):
        self.server.process.send_signal(daemon.signal.SIGSTOP)
        outcome = self.ctl("get", "k", "--timeout", "100ms")
        self.server.process.send_signal(daemon.signal.SIGCONT)
        self.assert_error(outcome, 4, "DEADLINE_EXCEEDED")


if __name__ == "__main__":
    system_test.main()

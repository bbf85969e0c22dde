"""Each reason for which lodgekvd does not start: one line that names it, and what would be right.

Exit code 2 where the configuration is wrong, 1 where the world is; what was there stays as it was,
and nothing half made is left. What a running daemon refuses (keys and values that are too long) is
in cli_test.
"""

import collections
import ctypes
import os
import random
import socket
import stat

import daemon
import pool_file
import system_test

POOL_SIZE = 16 * daemon.MIB
FLIPS = 24
# What libpmemobj keeps for itself: of the pool, where no checksum covers it; the header of its heap
# and the table of the only zone, with the first object's header.
OF_THE_POOL = range(6144, 6208)
OF_THE_HEAP = range(3153920, 3679232 + 64)
EXIT_DAMAGED_METADATA = 65
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1


class StartupErrorsTest(system_test.SystemTest):
    def setUp(self):
        self.workdir = self.folder()
        self.engine = daemon.persistent_engines()[0]
        self.pool = self.workdir / "pool"
        self.flags = {"engine": self.engine, "pool": self.pool, "pool-size": POOL_SIZE,
                      "allow-volatile-medium": "true", "listen": self.free_address(),
                      "admin-listen": self.free_address(), "metrics-listen": "off"}

    @staticmethod
    def free_address():
        return f"127.0.0.1:{daemon.free_port()}"

    def refuse(self, code, *parts, flags=None, env=None, under=(), **options):
        """Starts, as the command of `under`, with self.flags but for `flags` (None: left out); one
        line must have all parts."""
        flags = self.flags | (flags or {})
        words = [f"--{name}={value}" for name, value in flags.items() if value is not None]
        outcome = daemon.run(*under, daemon.LODGEKVD, *words, env=daemon.environment(**env or {}),
                             **options)
        text = outcome.stderr.decode(errors="replace") + outcome.stdout.decode(errors="replace")
        errors = [line for line in text.splitlines()
                  if line.startswith("lodgekvd: ") or " error " in line]
        self.assertEqual(outcome.returncode, code, text)
        self.assertEqual(len(errors), 1, text)
        for part in parts:
            self.assertIn(str(part), errors[0])

    def make_pool(self, **flags):
        """A pool with a key in it, cleanly closed."""
        server = daemon.Daemon(self.workdir, engine=self.engine, pool=self.pool,
                               pool_size=POOL_SIZE, forced_pmem=False, **flags)
        with server:
            server.ask("put", "k" * 8, "v" * 8)
            self.assertEqual(server.stop(), 0, server.tail())
        server.log.unlink()
        return server

    def assert_pool_serves(self, server):
        with server.start():
            self.assertEqual(server.ask("get", "--raw", "k" * 8), b"v" * 8)
            self.assertEqual(server.stop(), 0, server.tail())
        server.log.unlink()

    def assert_files(self, *names):
        self.assertEqual(sorted(path.name for path in self.workdir.iterdir()), sorted(names))

    # --- configuration ---

    def test_unknown_engine(self):
        known = [engine["name"] for engine in daemon.engines()]
        self.refuse(2, "unknown engine 'nosuch'", *known, flags={"engine": "nosuch"})
        self.assert_files()

    def test_unknown_config_field(self):
        config = self.workdir / "lodgekv.yaml"
        config.write_text(f"pool: {self.pool}\npool_sise: 16MiB\n")
        self.refuse(2, "lodgekv.yaml:2", "unknown field 'pool_sise'", "pool_size",
                    flags={"config": config})
        self.assert_files("lodgekv.yaml")

    def test_wrong_values(self):
        cases = [("pool-size", "big", "pool_size", "'big'"),
                 ("journal-size", "512KiB", "journal_size is 512KiB", "1MiB to 64GiB"),
                 ("journal-path", self.pool, "journal_path", "the pool itself"),
                 ("checkpoint-rate", "1KiB", "checkpoint_rate", "1MiB to 16GiB"),
                 ("key-format", "words", "key_format", "'words'", "bytes", "fixed64"),
                 ("engine-option", "nosuch=1", "unknown engine option 'nosuch'"),
                 ("max-key-size", "1GiB", "max_key_size", "65535"),
                 ("listen", "0.0.0.0:1", "0.0.0.0:1", "allow_plaintext"),
                 ("listen", self.flags["admin-listen"], self.flags["admin-listen"], "differ"),
                 ("nosuch", "1", "--nosuch")]
        for flag, value, *parts in cases:
            with self.subTest(flag=flag):
                self.refuse(2, *parts, flags={flag: value})
        self.refuse(2, "LODGEKV_POOL_SIZE", "'big'", env={"LODGEKV_POOL_SIZE": "big"})
        self.assert_files()

    def test_no_pool(self):
        self.refuse(2, "no pool", "--pool", flags={"pool": None})

    # --- the world ---

    def test_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            for flag in ("listen", "admin-listen", "metrics-listen"):
                with self.subTest(flag=flag):
                    self.refuse(1, address, "another process is using it", flags={flag: address})
        self.assert_files()

    def test_pool_already_open(self):
        with daemon.Daemon(self.workdir, engine=self.engine, pool=self.pool, pool_size=POOL_SIZE):
            self.refuse(1, self.pool, "open in another process")

    def test_pool_that_must_exist(self):
        self.refuse(1, "no pool at", self.pool, "pool_must_exist",
                    flags={"pool-must-exist": "true"})
        self.refuse(1, "no pool at", self.pool, env={"LODGEKV_POOL_MUST_EXIST": "true"})
        self.assert_files()
        self.pool.touch()
        self.refuse(1, self.pool, "an empty file", flags={"pool-must-exist": "true"})
        self.assertEqual(self.pool.stat().st_size, 0)
        self.pool.unlink()
        server = self.make_pool()
        server.flags["pool_must_exist"] = True
        self.assert_pool_serves(server)

    def test_empty_file_is_made_a_pool_with_a_warning(self):
        self.pool.touch()
        with daemon.Daemon(self.workdir, engine=self.engine, pool=self.pool,
                           pool_size=POOL_SIZE) as server:
            self.assertRegex(server.tail(), "warning .*an empty file was at the pool's path")

    def test_pool_of_another_identity(self):
        identity = self.workdir / "identity"
        server = self.make_pool(pool_identity_file=identity)
        known = identity.read_text().split()[-1]
        kept = self.pool.rename(self.workdir / "kept")
        self.refuse(1, "no pool at", self.pool, known, identity,
                    flags={"pool-identity-file": identity})
        other = self.make_pool()
        with other.start():
            found = other.ask_json("status")["pool_id"]
            self.assertEqual(other.stop(), 0)
        other.log.unlink()
        self.refuse(1, self.pool, known, found, identity, flags={"pool-identity-file": identity})
        kept.rename(self.pool)
        self.assert_pool_serves(server)
        identity.write_text("")
        self.refuse(1, identity, "damaged", flags={"pool-identity-file": identity})
        self.refuse(2, "pool_identity_file", "the pool itself",
                    flags={"pool-identity-file": self.pool})
        self.refuse(2, "pool_must_exist", "engine dram",
                    flags={"engine": "dram", "pool-must-exist": "true"})

    def test_unwritable_directory(self):
        place = self.workdir / "place"
        place.mkdir()
        place.chmod(stat.S_IRUSR | stat.S_IXUSR)
        pool = place / "pool"
        libc = ctypes.CDLL(None)  # so that permissions hold for root too
        self.refuse(1, pool, "Permission denied", flags={"pool": pool},
                    preexec_fn=lambda: libc.prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0))
        self.assertEqual(list(place.iterdir()), [])

    def test_missing_directory(self):
        pool = self.workdir / "no/pool"
        self.refuse(1, pool, "No such file or directory", flags={"pool": pool})
        self.assert_files()

    def test_volatile_medium_without_leave(self):
        if self.workdir.parent != daemon.pathlib.Path("/dev/shm"):
            self.skipTest("no memory file system at /dev/shm")
        self.refuse(1, self.pool, "memory file system", "allow_volatile_medium",
                    flags={"allow-volatile-medium": "false"})
        self.assert_files()

    # --- the pool ---

    def test_pool_too_small(self):
        self.refuse(1, self.pool, "too small", daemon.MIB, flags={"pool-size": daemon.MIB})
        self.assert_files()

    def test_another_pool_size_is_explained(self):
        server = self.make_pool()
        for size, told in ((2 * POOL_SIZE, True), (POOL_SIZE, False), (0, False)):
            server.flags["pool_size"] = size
            with server.start():
                self.assertEqual(server.stop(), 0, server.tail())
            lines = [line for line in server.log.read_text().splitlines() if " warning " in line
                     and "pool_size" in line]
            self.assertEqual(len(lines), told, server.tail())
            if told:
                self.assertIn("dump the pool and load it into a new one pool_size=32MiB "
                              "size_of_the_pool=16MiB", lines[0])
            server.log.unlink()

    def test_something_else_at_the_path(self):
        for content in (b"a text file\n", random.Random(1).randbytes(POOL_SIZE)):
            self.pool.write_bytes(content)
            self.refuse(1, self.pool, "not a LodgeKV pool")
            self.assertEqual(self.pool.read_bytes(), content)
        self.assert_files("pool")

    def test_sparse_pool_on_a_full_disk(self):
        """A file system of 8 MiB that the daemon alone sees holds a sparse copy of a pool."""
        self.make_pool()
        disk = self.workdir / "disk"
        disk.mkdir()
        users = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        on_disk = ["unshare", *users, "--mount", "sh", "-ec",
                   'mount -t tmpfs -o size=8m none "$0"; '
                   'cp --sparse=always "$1" "$0/pool"; shift; exec "$@"', disk, self.pool]
        probe = daemon.run(*on_disk, "true")
        if probe.returncode != 0:
            self.skipTest(f"no file system of our own here: {probe.stderr.decode()}")
        self.refuse(1, f"pool {disk}/pool: it is sparse", "of its bytes have no room",
                    "No space left on device", flags={"pool": disk / "pool"}, under=on_disk)

    def test_pool_of_another_key_format(self):
        server = self.make_pool()
        self.refuse(1, self.pool, "key format bytes", "fixed64", flags={"key-format": "fixed64"})
        self.assert_pool_serves(server)

    def test_pool_of_an_unknown_engine(self):
        server = self.make_pool()
        pool = pool_file.PoolFile(self.pool)
        pool.rewrite_identity(pool_file.ENGINE, b"othertree")
        self.refuse(1, self.pool, "engine othertree", f"engine {self.engine}")
        pool.restore()
        self.assert_pool_serves(server)

    def test_pool_of_each_other_engine(self):
        engines = daemon.persistent_engines()
        if len(engines) < 2:
            self.skipTest("one engine only")
        for self.engine in engines:
            server = self.make_pool()
            for other in engines:
                if other == self.engine:
                    continue
                with self.subTest(pool=self.engine, opened_with=other):
                    self.refuse(1, self.pool, f"made by engine {self.engine}",
                                f"engine {other} was asked for", flags={"engine": other})
            self.assert_pool_serves(server)
            self.pool.unlink()

    def test_pool_of_a_newer_format(self):
        server = self.make_pool()
        pool = pool_file.PoolFile(self.pool)
        pool.rewrite_identity(pool_file.FORMAT_VERSION, (77).to_bytes(4, "little"))
        self.refuse(1, self.pool, "77")
        pool.restore()
        self.assert_pool_serves(server)

    def test_pool_of_another_length(self):
        server = self.make_pool()
        pool = pool_file.PoolFile(self.pool)
        for content in (pool.original[:100], pool.original[:POOL_SIZE // 2], pool.original[:-4096]):
            pool.write(content)
            self.refuse(1, self.pool, "truncated")
            self.assertEqual(self.pool.stat().st_size, len(content))
        pool.write(pool.original + bytes(4096))
        self.refuse(1, self.pool, "extended")
        pool.restore()
        self.assert_pool_serves(server)

    def test_flipped_header_byte(self):
        server = self.make_pool()
        pool = pool_file.PoolFile(self.pool)
        chance = random.Random(system_test.SEED)
        ours = chance.sample(range(pool.header, pool.header + pool_file.HEADER_BYTES), FLIPS)
        for offset in [*ours, *chance.sample(range(4096), FLIPS // 2)]:
            bit = chance.randrange(8)
            with self.subTest(offset=offset - pool.header, bit=bit):
                pool.flip(offset, bit)
                self.refuse(1, self.pool)
        pool.restore()
        self.assert_pool_serves(server)
        self.assert_files("pool")

    def test_flipped_byte_of_libpmemobjs_own(self):
        """A sound start, or one line and an exit code; never a signal."""
        server = self.make_pool()
        pool = pool_file.PoolFile(self.pool)
        chance = random.Random(system_test.SEED)
        filled = [at for at in OF_THE_HEAP if pool.original[at] != 0]
        ends = collections.Counter()
        bits = [(at, bit) for at in OF_THE_POOL for bit in range(8)]
        for offset, bit in [*chance.sample(bits, FLIPS), (6151, 1), (6178, 3),
                            *((at, chance.randrange(8)) for at in chance.sample(filled, FLIPS))]:
            with self.subTest(offset=offset, bit=bit):
                pool.flip(offset, bit)
                ends[self.start_and_stop(server)] += 1
        print(dict(ends), end=" ", flush=True)
        pool.restore()
        self.assert_pool_serves(server)

    def start_and_stop(self, server):
        """The exit code; where it does not serve, behind one line that names the pool."""
        try:
            with server.start():
                code = server.stop()
                self.assertIn(code, (0, 1, EXIT_DAMAGED_METADATA), server.tail())
        except daemon.DaemonError:
            code = server.process.returncode
            self.assertIn(code, (1, EXIT_DAMAGED_METADATA), server.tail())
            said = [line for line in server.tail().splitlines()
                    if " error " in line or line.startswith("lodgekv pool: ")]
            self.assertEqual(len(said), 1, server.tail())
            self.assertIn(str(self.pool), said[0])
        server.log.unlink()
        return code


if __name__ == "__main__":
    system_test.main()

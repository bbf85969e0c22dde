"""Real paths to persistent memory: the daemon in virtual machines, on an emulated NVDIMM and an
emulated CXL device, by way of ext4 with -o dax and of /dev/dax.

On each medium the daemon must name its class in its log, in its status and in its metrics. Clients
on this machine write, read and scan (tests/system/ledger); the virtual machine is killed in
mid-write, boots again on the same memory, and the checker compares its content with the ledgers:
every acknowledged write is there. LODGEKV_DAX_KILLS sets the kills of each medium and engine.

The emulated memory is a file of this machine, whose kernel has every store at once: a program
without a single flush would pass. So these tests look at devices, mappings, file systems and
recovery after a cut; what a cut takes from the caches is the crash explorer's part. File systems
without dax are the exception: there the guest's page cache is lost, so that what the journal did
not hold is gone, and a daemon that syncs nothing must be seen to lose writes. There the machine is
killed in mid-write, in checkpoints of the journal and in its replay; LODGEKV_FILE_KILLS sets how
often.
"""

import os
import random
import re
import subprocess
import time
import unittest

import daemon
import guest
import machine
import system_test

KILLS = int(os.environ.get("LODGEKV_DAX_KILLS", "3"))
FILE_KILLS = int(os.environ.get("LODGEKV_FILE_KILLS", str(KILLS)))
LOAD_LEDGER = daemon.BIN / "load_ledger"
FILL = 2000
CLIENTS = 2
THREADS_PER_CLIENT = 2
WRITES_BEFORE_KILL = 50
KILL_SECONDS = (0.0, 3.0)
REPLAY_SECONDS = 0.3
RECOVERY_SECONDS = 0.6  # from the first line of the log to the last of recovery, about
CLIENT_SECONDS = 300

ADR = {"medium_class": "pmem-adr", "persistence_domain": "memory_controller"}
CXL = {"medium_class": "cxl", "persistence_domain": "", "cxl": True}
FILE = {"medium_class": "file", "persistence_domain": "memory_controller", "mode": "fsdax",
        "mount": "dax=never", "map_sync": False}
FSDAX = machine.Medium("NVDIMM, ext4", mode="fsdax", **ADR)
FSDAX_XFS = machine.Medium("NVDIMM, xfs", mode="fsdax", file_system="xfs", **ADR)
DEVDAX = machine.Medium("NVDIMM, devdax", mode="devdax", **ADR)
EADR = machine.Medium("NVDIMM with eADR, ext4", "pmem-eadr", "cpu_cache", "fsdax",
                      caches_survive=True)
CXL_FSDAX = machine.Medium("CXL type 3, ext4", mode="fsdax", **CXL)
CXL_DEVDAX = machine.Medium("CXL type 3, devdax", mode="devdax", **CXL)
WITHOUT_DAX = machine.Medium("NVDIMM, ext4 without dax", **FILE)
XFS_WITHOUT_DAX = machine.Medium("NVDIMM, xfs without dax", file_system="xfs", **FILE)
WITHOUT_SYNC = machine.Medium("NVDIMM, ext4 without dax, nothing synced", durability="process",
                              **FILE)


class DaxTest(system_test.SystemTest):
    @classmethod
    def setUpClass(cls):
        if reason := guest.why_not():
            raise unittest.SkipTest(reason)
        folder = cls.enterClassContext(daemon.folder(daemon.disk_folder()))
        try:
            cls.image = guest.Image(folder, daemon.LODGEKVD)
        except guest.NoKernelError as error:
            raise unittest.SkipTest(f"there is no kernel for a guest: {error}") from error
        cls.counts = Counts()

    @classmethod
    def tearDownClass(cls):
        print(cls.counts.line(), flush=True)

    def test_nvdimm_fsdax(self):
        self.for_each_engine(lambda engine: self.run_kills(FSDAX, engine))

    def test_nvdimm_fsdax_xfs(self):
        self.run_kills(FSDAX_XFS, daemon.persistent_engines()[0])

    def test_nvdimm_devdax(self):
        self.for_each_engine(lambda engine: self.run_kills(DEVDAX, engine, "fixed64"))

    def test_nvdimm_eadr(self):
        self.run_kills(EADR, daemon.persistent_engines()[-1])

    def test_cxl_fsdax(self):
        self.run_kills(CXL_FSDAX, daemon.persistent_engines()[0])

    def test_cxl_devdax(self):
        self.run_kills(CXL_DEVDAX, daemon.persistent_engines()[-1])

    def test_file_without_dax(self):
        self.for_each_engine(lambda engine: self.run_kills(WITHOUT_DAX, engine, kills=FILE_KILLS))

    def test_file_without_dax_xfs(self):
        self.run_kills(XFS_WITHOUT_DAX, daemon.persistent_engines()[-1])

    def run_kills(self, medium, engine, key_format="bytes", kills=KILLS):
        cuts = Cuts(self, medium, engine, key_format)
        try:
            cuts.prepare()
            for cycle in range(kills):
                cuts.load_and_kill(cycle)
                if cuts.random.random() < 0.5:
                    cuts.kill_in_recovery()
                cuts.restart()
                cuts.check(cycle)
            self.assertEqual(cuts.machine.stop(), 0, cuts.machine.tail())
        finally:
            print(cuts.line(), flush=True)
            self.counts.add(medium, cuts)

    def test_losses_are_noticed(self):
        """Where nothing is synced a cut loses writes, and the checker says so; or so much that
        the pool is refused."""
        engine = daemon.persistent_engines()[0]
        cuts = Cuts(self, WITHOUT_SYNC, engine, "bytes")
        cuts.prepare()
        cuts.machine.tell("sync")
        cuts.machine.said("guest: synced")
        cuts.load_and_kill(0)
        try:
            cuts.machine.start()
        except daemon.DaemonError as error:
            self.assertIn("cannot open the pool", str(error))
            print(f"{engine}, {WITHOUT_SYNC.name}: the pool is refused after the cut", flush=True)
            return
        outcome = cuts.run_checker(0)
        self.assertEqual(outcome.returncode, 1, outcome.stdout + outcome.stderr)
        print(f"{engine}, {WITHOUT_SYNC.name}: {outcome.stdout.strip()}", flush=True)


class Counts:
    """Of all media."""

    def __init__(self):
        self.media = []
        self.acknowledged = self.kills = self.in_recovery = self.lost = 0
        self.in_checkpoint = self.in_replay = 0

    def add(self, medium, cuts):
        if medium.name not in self.media:
            self.media.append(medium.name)
        self.acknowledged += cuts.acknowledged
        self.kills += cuts.kills
        self.in_recovery += cuts.in_recovery
        self.in_checkpoint += cuts.in_checkpoint
        self.in_replay += cuts.in_replay
        self.lost += cuts.problems

    def line(self):
        return (f"media seen: {'; '.join(self.media) or 'none'}. {self.acknowledged} acknowledged "
                f"writes, {self.kills} machine kills ({self.in_checkpoint} of them in a "
                f"checkpoint), {self.in_recovery} more in recovery ({self.in_replay} of them in "
                f"replay), {self.lost} lost")


class Cuts:
    """A machine, the power cuts that it suffers, and what its clients know of its pool."""

    def __init__(self, test, medium, engine, key_format):
        self.test, self.medium, self.engine, self.key_format = test, medium, engine, key_format
        self.random = random.Random(f"{system_test.SEED} {medium.name} {engine}")
        # On a disk: the memory of the guest's devices is mapped with all of its size.
        self.workdir = test.folder(daemon.disk_folder())
        self.machine = machine.Machine(self.workdir, test.image, medium, ENGINE=engine,
                                       KEY_FORMAT=key_format)
        self.kills = self.in_recovery = self.in_checkpoint = self.in_replay = 0
        self.acknowledged = self.unknown = self.reads = self.problems = 0

    def line(self):
        return (f"{self.engine}: {self.kills} machine kills on {self.medium.name} "
                f"({self.medium.medium_class}, {self.in_checkpoint} in a checkpoint), "
                f"{self.in_recovery} more in recovery ({self.in_replay} in replay), "
                f"{self.key_format}, {self.acknowledged} acknowledged writes, {self.unknown} "
                f"unknown, {self.reads} reads, {self.problems} lost")

    def prepare(self):
        self.test.enterContext(self.machine)
        self.look_at_medium("created")
        outcome = self.ledger("fill", FILL)
        self.test.assertEqual(outcome.returncode, 0, outcome.stderr + self.machine.tail())

    def restart(self):
        self.machine.start()
        self.look_at_medium("recovered")

    def look_at_medium(self, opened):
        """What the daemon says in its three places, and what the kernel says."""
        test, medium, guest_machine = self.test, self.medium, self.machine
        test.assertIn(f"medium_class={medium.medium_class} ", guest_machine.said(f" {opened} "))
        status = guest_machine.ask_json("status")
        test.assertEqual(status["medium_class"], medium.medium_class)
        info = re.search(r"^lodgekv_medium_info{.*} 1$", guest_machine.scrape(), re.M)
        test.assertIn(f'medium_class="{medium.medium_class}"', info[0])
        test.assertIn(medium.persistence_domain, guest_machine.said("guest: persistence domain:"))
        guest_machine.tell("mapping")
        flags = guest_machine.said("guest: mapping of").split("VmFlags:")[1].split()
        test.assertEqual("sf" in flags, medium.map_sync, flags)

    def load_and_kill(self, cycle):
        clients = self.start_clients(cycle)
        deadline = time.monotonic() + CLIENT_SECONDS
        while self.machine.writes() < WRITES_BEFORE_KILL:
            self.test.assertLess(time.monotonic(), deadline, self.machine.tail())
            time.sleep(0.1)
        if self.medium.has_journal and cycle % 2:
            self.await_checkpoint(deadline)
            self.in_checkpoint += 1
        else:
            time.sleep(self.random.uniform(*KILL_SECONDS))
        idle = [client for client in clients if client.poll() is not None]
        self.machine.kill()
        self.kills += 1
        for client in clients:
            message = client.communicate(timeout=CLIENT_SECONDS)[1]
            self.test.assertEqual(client.returncode, 0, message)
        self.test.assertFalse(idle, "clients had ended before the cut")

    def await_checkpoint(self, deadline):
        while self.machine.checkpoint_lag() == 0:
            self.test.assertLess(time.monotonic(), deadline, "no checkpoint has begun")
            time.sleep(0.02)

    def kill_in_recovery(self):
        """In its first moments, as near as the console tells of them."""
        self.machine.spawn()
        self.machine.said(" listening ", machine.BOOT_SECONDS)
        seconds = REPLAY_SECONDS if self.medium.has_journal else RECOVERY_SECONDS
        time.sleep(self.random.uniform(0, seconds))
        self.machine.kill()
        log = self.machine.boot_log()
        self.in_recovery += " recovered " not in log
        # What the engine's recovery says comes behind the replay.
        self.in_replay += self.medium.has_journal and " recover" not in log

    def start_clients(self, cycle):
        return [subprocess.Popen(
            self.ledger_command("run", "--cycle", cycle, "--first-client",
                                number * THREADS_PER_CLIENT, "--threads", THREADS_PER_CLIENT,
                                "--out", self.ledger_path(number)),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            preexec_fn=daemon.die_with_parent,
            env=daemon.environment(LODGEKV_TEST_SEED=system_test.SEED))
            for number in range(CLIENTS)]

    def run_checker(self, cycle):
        outcome = self.ledger("check", "--fill", FILL, "--state", self.workdir / "state",
                              *map(self.ledger_path, range(CLIENTS)))
        found = dict(re.findall(r"(\w+)=(\d+)", outcome.stdout))
        for name in ("acknowledged", "unknown", "reads", "problems"):
            setattr(self, name, getattr(self, name) + int(found.get(name, 0)))
        self.test.assertGreater(int(found.get("acknowledged", 0)), 0,
                                f"cycle {cycle}: {outcome.stderr}")
        return outcome

    def check(self, cycle):
        outcome = self.run_checker(cycle)
        self.test.assertEqual(outcome.returncode, 0,
                              f"cycle {cycle}, seed {system_test.SEED}: {outcome.stderr}")
        check = self.machine.ask_json("check")
        self.test.assertTrue(check["sound"], check["problems"])

    def ledger_path(self, number):
        return self.workdir / f"ledger{number}"

    def ledger_command(self, *words):
        """Without versions and lives: lives go by the guest's clock, which is a second off."""
        flags = ["--fixed64"] if self.key_format == "fixed64" else ["--no-versions"]
        command = [LOAD_LEDGER, "--server", self.machine.server, *flags, *words]
        return [str(word) for word in command]

    def ledger(self, *words):
        return subprocess.run(self.ledger_command(*words), capture_output=True, text=True,
                              check=False, timeout=CLIENT_SECONDS, env=daemon.environment())


if __name__ == "__main__":
    system_test.main()

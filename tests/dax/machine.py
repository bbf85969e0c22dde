"""A machine in software emulation whose persistent memory is a file of ours, with the daemon on it.
To kill it is to cut its power: what its processor, its memory and its kernel held is gone."""

import dataclasses
import re
import subprocess
import time

import daemon
import guest
import metrics_page

BOOT_SECONDS = 300
STOP_SECONDS = 120
ANSWER_SECONDS = 60
MEMORY_SIZE = 512 * daemon.MIB
LABELS_SIZE = daemon.MIB
PORT_NAMES = ("SERVER_PORT", "ADMIN_PORT", "METRICS_PORT")


@dataclasses.dataclass(frozen=True)
class Medium:
    """A kind of persistent memory, how the guest uses it, and what the daemon must make of it."""
    name: str
    medium_class: str
    persistence_domain: str
    mode: str
    file_system: str = "ext4"
    mount: str = "dax=always"
    map_sync: bool = True
    cxl: bool = False
    caches_survive: bool = False
    durability: str = "medium"
    # Of a file: small and slow, so that checkpoints are frequent and long enough to be met.
    journal_size: str = "2MiB"
    checkpoint_rate: str = "1MiB"

    @property
    def has_journal(self):
        return self.medium_class == "file" and self.durability == "medium"

    def variables(self):
        return {"MODE": self.mode, "FILE_SYSTEM": self.file_system, "MOUNT": self.mount,
                "CXL": "yes" if self.cxl else "no", "DURABILITY": self.durability,
                "JOURNAL_SIZE": self.journal_size, "CHECKPOINT_RATE": self.checkpoint_rate}

    def devices(self, folder):
        if self.cxl:
            return self._cxl(folder)
        persistence = "cpu" if self.caches_survive else "mem-ctrl"
        return ["-machine", f"q35,nvdimm=on,nvdimm-persistence={persistence}",
                "-object", backend("memory", folder / "memory", MEMORY_SIZE),
                "-device", "nvdimm,id=nvdimm0,memdev=memory"]

    @staticmethod
    def _cxl(folder):
        """Two root ports, since behind a single one all reads gave zeros; a serial number, since
        without one its labels name no namespace."""
        return ["-machine", "q35,cxl=on",
                "-object", backend("memory", folder / "memory", MEMORY_SIZE),
                "-object", backend("labels", folder / "labels", LABELS_SIZE),
                "-device", "pxb-cxl,bus_nr=12,bus=pcie.0,id=cxl.1",
                "-device", "cxl-rp,port=0,bus=cxl.1,id=root0,chassis=0,slot=2",
                "-device", "cxl-rp,port=1,bus=cxl.1,id=root1,chassis=0,slot=3",
                "-device", "cxl-type3,bus=root0,memdev=memory,lsa=labels,sn=0x1,id=cxl-pmem0",
                "-M", "cxl-fmw.0.targets.0=cxl.1,cxl-fmw.0.size=4G"]


def backend(name, path, size):
    return f"memory-backend-file,id={name},share=on,mem-path={path},size={size}"


class Machine(daemon.Daemon):
    """The daemon in a guest; lodgectl and load_ledger reach it through ports of this machine."""

    def __init__(self, workdir, image, medium, **variables):
        super().__init__(workdir)
        self.image, self.medium, self.variables = image, medium, variables
        self.log = self.workdir / "console"
        self.metrics = None
        self.prepared = False
        self.boot_offset = 0

    def spawn(self):
        ports = [daemon.free_port() for _ in PORT_NAMES]
        self.server, self.admin, self.metrics = (f"127.0.0.1:{port}" for port in ports)
        if self.log.exists():
            self.boot_offset = self.log.stat().st_size
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.qemu_command(ports), stdin=subprocess.PIPE, stdout=log, stderr=log,
                preexec_fn=daemon.die_with_parent)
        return self

    def qemu_command(self, ports):
        forwards = "".join(f",hostfwd=tcp:127.0.0.1:{port}-:{port}" for port in ports)
        variables = self.medium.variables() | self.variables | dict(zip(PORT_NAMES, ports))
        variables["PREPARE"] = "no" if self.prepared else "yes"
        words = " ".join(f"{name}={value}" for name, value in variables.items())
        # Never with KVM: that its device is there does not say that a guest boots.
        return [guest.program("qemu-system-x86_64"), "-accel", "tcg,thread=multi", "-cpu", "max",
                "-smp", "2", "-m", "1G,slots=4,maxmem=8G", *self.medium.devices(self.workdir),
                "-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio",
                "-netdev", f"user,id=network,restrict=on{forwards}",
                "-device", "virtio-net-pci,bus=pcie.0,netdev=network,romfile=",
                "-kernel", str(self.image.kernel.image), "-initrd", str(self.image.initramfs),
                "-append", f"console=ttyS0 panic=-1 quiet {words}"]

    def start(self):
        """Boots and waits until the daemon serves."""
        self.spawn()
        deadline = time.monotonic() + BOOT_SECONDS
        while not ("listening" in self.boot_log() and self.is_serving()):
            if self.process.poll() is not None:
                raise daemon.DaemonError(f"the machine ended:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise daemon.DaemonError(f"no service after {BOOT_SECONDS} s:\n{self.tail()}")
            time.sleep(0.2)
        self.prepared = True
        return self

    def boot_log(self):
        """What the console has had since the machine was started last."""
        with open(self.log, "rb") as log:
            log.seek(self.boot_offset)
            return log.read().decode(errors="replace")

    def said(self, pattern, seconds=ANSWER_SECONDS):
        """The last line of the boot that has this in it; waits for it."""
        deadline = time.monotonic() + seconds
        while not (found := re.findall(rf"^.*{pattern}.*$", self.boot_log(), re.M)):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise daemon.DaemonError(f"no line with '{pattern}' on the console:\n{self.tail()}")
            time.sleep(0.02)
        return found[-1].strip()

    def tell(self, word):
        """To init in the guest."""
        self.process.stdin.write(word.encode() + b"\n")
        self.process.stdin.flush()

    def scrape(self):
        return metrics_page.fetch(self.metrics, seconds=60)

    def writes(self):
        """So many since the daemon was started."""
        return metrics_page.Page(self.scrape())["lodgekv_write_group_operations_total"]

    def checkpoint_lag(self):
        """Seconds since a segment of the journal has been full; 0 where none waits."""
        return metrics_page.Page(self.scrape())["lodgekv_journal_lag_seconds"]

    def kill(self):
        super().kill()
        self.process.stdin.close()

    def terminate(self):
        self.tell("stop")

    def stop(self):
        """Ends the daemon in order, then the machine; the exit code of the daemon."""
        self.terminate()
        self.process.wait(STOP_SECONDS)
        self.process.stdin.close()
        return int(re.search(r"lodgekvd ended with (\d+)", self.boot_log())[1])

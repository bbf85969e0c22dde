"""What a guest boots: Debian's cloud kernel, not installed, and a file system in memory of busybox,
the tools for persistent memory, the daemon and all that these need. No root is needed for it."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
KERNEL_PACKAGE = "linux-image-cloud-amd64"
# In the order in which they are loaded; what they need themselves comes before them.
MODULES = ("virtio_pci", "virtio_net", "nfit", "nd_pmem", "device_dax", "dax_pmem", "cxl_acpi",
           "cxl_pmem", "cxl_pci", "cxl_mem", "xfs")
TOOLS = ("ndctl", "cxl", "mkfs.ext4", "mkfs.xfs")
NEEDED = ("qemu-system-x86_64", "busybox", "cpio", "depmod", "apt-get", *TOOLS)
# Administrators' programs are not in everybody's PATH.
PATH = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"


class GuestError(Exception):
    pass


class NoKernelError(GuestError):
    """The package of the kernel cannot be had here."""


def why_not():
    """What is missing here, or None."""
    missing = [name for name in NEEDED if program(name) is None]
    if missing:
        return (f"not installed: {', '.join(missing)}; scripts/install_packages --dax installs "
                "them")
    return None


def program(name):
    return shutil.which(name, path=PATH)


def checked(*command, **options):
    outcome = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                             check=False, timeout=300, env=os.environ | {"PATH": PATH}, **options)
    if outcome.returncode != 0:
        raise GuestError(f"{command[0]} ended with {outcome.returncode}: {outcome.stderr[-2000:]}")
    return outcome.stdout


class Kernel:
    """The kernel that KERNEL_PACKAGE stands for now, unpacked once below LODGEKV_TOOLS."""

    def __init__(self):
        package = self.newest()
        self.release = package.removeprefix("linux-image-")
        tools = os.environ.get("LODGEKV_TOOLS") or pathlib.Path(
            os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "lodgekv")
        self.folder = pathlib.Path(tools, package)
        if not self.folder.exists():
            self.unpack(package)
        self.image = self.folder / f"boot/vmlinuz-{self.release}"
        self.modules = self.folder / "lib/modules" / self.release

    @staticmethod
    def newest():
        found = re.search(r"^ +Depends: (linux-image-\S+)$",
                          checked("apt-cache", "depends", KERNEL_PACKAGE), re.M)
        if found is None:
            raise NoKernelError(f"apt knows no package {KERNEL_PACKAGE}")
        return found[1]

    def unpack(self, package):
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder.parent) as place:
            try:
                checked("apt-get", "download", "-qq", package, cwd=place)
            except GuestError as error:
                raise NoKernelError(str(error)) from error
            [archive] = pathlib.Path(place).glob("*.deb")
            unpacked = pathlib.Path(place, "unpacked")
            checked("dpkg-deb", "--extract", archive, unpacked)
            checked("depmod", "--basedir", unpacked, package.removeprefix("linux-image-"))
            if not self.folder.exists():
                unpacked.rename(self.folder)

    def module_files(self):
        """Paths below self.modules, each after those that it needs. The tools' own configuration
        of modprobe has rules of ndctl's that hide libnvdimm: depmod's list has none."""
        needs = {}
        for line in (self.modules / "modules.dep").read_text().splitlines():
            path, rest = line.split(":")
            needs[pathlib.Path(path).stem.replace("-", "_")] = [*reversed(rest.split()), path]
        builtin = {pathlib.Path(path).stem.replace("-", "_") for path in
                   (self.modules / "modules.builtin").read_text().split()}
        files = {}
        for name in MODULES:
            if name in needs:
                files.update(dict.fromkeys(needs[name]))
            elif name not in builtin:
                raise GuestError(f"{self.release} has no module {name}")
        return list(files)


class Image:
    """Kernel and initial file system, in the folder."""

    def __init__(self, folder, daemon):
        self.kernel = Kernel()
        self.root = pathlib.Path(folder, "root")
        self.initramfs = pathlib.Path(folder, "initramfs")
        for name in ("bin", "dev", "proc", "sys", "tmp", "mnt", "etc"):
            (self.root / name).mkdir(parents=True)
        shutil.copy(program("busybox"), self.root / "bin/busybox")
        for path in (daemon, *(pathlib.Path(program(name)) for name in TOOLS)):
            self.add_program(path)
        shutil.copy("/etc/mke2fs.conf", self.root / "etc")
        shutil.copy(HERE / "init", self.root / "init")
        self.add_modules()
        self.pack()

    def add_program(self, path):
        shutil.copy(path, self.root / "bin" / path.name)
        listing = checked("ldd", path)
        if missing := re.findall(r"(\S+) => not found", listing):
            raise GuestError(f"{path} needs {', '.join(missing)}, which is not here")
        for library in re.findall(r"(/\S+) \(0x", listing):
            target = self.root / library.lstrip("/")
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, target)

    def add_modules(self):
        files = self.kernel.module_files()
        for path in files:
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.kernel.modules / path, target)
        (self.root / "modules").write_text("".join(f"{path}\n" for path in files))

    def pack(self):
        """Not compressed: the emulated processor would take longer to unpack it than to read it."""
        names = "\0".join(str(path.relative_to(self.root)) for path in self.root.rglob("*"))
        with open(self.initramfs, "wb") as out:
            subprocess.run([program("cpio"), "--null", "--create", "--format=newc", "--quiet",
                            "--owner=0:0"], input=names.encode(), stdout=out, cwd=self.root,
                           check=True)
        shutil.rmtree(self.root)

"""An image of the Dockerfile, built and run without a daemon of containers, in a store that
vanishes with the test."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess

import daemon

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEEDED = ("podman", "buildah", "runc", "debootstrap")
RELEASE = "bookworm"
BASE, IMAGE = "localhost/debian:12-slim", "localhost/lodgekv:test"
# On the network of this machine; with limits, since those of this process may not be raised in a
# container; and with the chart's restrictions.
RUN = ["--runtime", "runc", "--network=host", "--log-driver=k8s-file",
       "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024",
       "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges"]


def why_not():
    """What is missing here, or None."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        return (f"not installed: {', '.join(missing)}; scripts/install_packages --deploy "
                "installs them")
    return None if os.geteuid() == 0 else "building an image without a daemon needs root here"


def checked(command, **options):
    outcome = subprocess.run([str(word) for word in command], capture_output=True, check=False,
                             **options)
    if outcome.returncode != 0:
        said = (outcome.stdout + outcome.stderr).decode(errors="replace")
        raise RuntimeError(f"{command[0]} ended with {outcome.returncode}: {said[-4000:]}")
    return outcome.stdout.decode(errors="replace")


class Store(contextlib.ExitStack):
    """Images and containers, in a folder of their own."""

    def __init__(self):
        super().__init__()
        self.folder = self.enter_context(daemon.folder(daemon.disk_folder()))
        self.callback(self.remove)
        self.flags = ["--root", self.folder / "store", "--runroot", self.folder / "run",
                      "--storage-driver", "overlay"]

    def podman(self, *words, **options):
        return checked(["podman", *self.flags, *words], **options)

    def remove(self):
        """Containers first: their file systems are mounted."""
        for words in (["rm", "--all", "--force"], ["rmi", "--all", "--force"]):
            subprocess.run(["podman", *map(str, self.flags), *words], capture_output=True,
                           check=False)

    def import_base(self):
        """Debian 12 from the place that this machine gets its packages from."""
        rootfs = self.folder / "rootfs"
        checked(["debootstrap", "--variant=minbase", RELEASE, rootfs, self.mirror()])
        (rootfs / "etc/apt/apt.conf.d/99this-machine").write_text(self.ways_to_mirror())
        checked(["sh", "-c", f"tar -C {rootfs} -c . | podman "
                             f"{' '.join(map(str, self.flags))} import - {BASE}"])
        shutil.rmtree(rootfs)

    @staticmethod
    def mirror():
        text = checked(["apt-get", "indextargets", "Created-By: Packages", "--format",
                        "$(CODENAME) $(COMPONENT) $(REPO_URI)"])
        places = re.findall(rf"^{RELEASE} main (\S+)$", text, re.M)
        if not places:
            raise RuntimeError(f"apt knows no place of {RELEASE}, component main")
        return places[0]

    @staticmethod
    def ways_to_mirror():
        """Proxies and the like, as this machine has them."""
        return "".join(re.findall(r"^Acquire::(?:https?::|Check-).*\n", checked(
            ["apt-config", "dump"]), re.M))

    def build(self, context, **arguments):
        words = [word for name, value in (arguments | {"BASE": BASE}).items()
                 for word in ("--build-arg", f"{name}={value}")]
        return checked(["buildah", *self.flags, "bud", "--isolation=chroot", "--pull=never",
                        "--format", "docker", *words, "-t", IMAGE, context])

    def image(self):
        return json.loads(self.podman("image", "inspect", IMAGE))[0]

    def run(self, *words, name, options=()):
        """Started in the background."""
        return self.podman("run", "--detach", "--name", name, *RUN, *options, IMAGE, *words)


def context_of_programs(folder):
    """What the Dockerfile needs when the programs are there already."""
    (folder / "scripts").mkdir(parents=True)
    (folder / "prebuilt").mkdir()
    for name in ("Dockerfile", ".dockerignore", "scripts/install_packages"):
        shutil.copy(ROOT / name, folder / name)
    for program in (daemon.LODGEKVD, daemon.LODGECTL):
        shutil.copy(program, folder / "prebuilt")
    return folder

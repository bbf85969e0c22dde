"""The chart as its tests see it: which releases they render, with what, and what must come out."""

import functools
import hashlib
import pathlib
import re
import shutil
import subprocess

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/lodgekv"
GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
SOURCES = GOLDEN / "SOURCES"
INSTALL_TOOLS = ROOT / "scripts/install_deploy_tools"
# Rendered for the newest, accepted by both.
KUBERNETES = ("1.27.0", "1.34.0")
MEDIA = ("pvc", "fsdax", "devdax", "cxl")

# Release name and arguments of each golden file.
CASES = {name: ("kv", ["-f", CHART / f"values-{name}.yaml"]) for name in MEDIA} | {
    "mutual_tls": ("lodgekv", ["-f", GOLDEN / "mutual_tls.values.yaml"]),
    "plaintext": ("lodgekv", ["-f", GOLDEN / "plaintext.values.yaml"]),
}


def digest():
    """Of what the golden files are made from."""
    total = hashlib.sha256()
    for path in [*sorted(CHART.glob("*.*")), *sorted(CHART.glob("templates/*")),
                 *sorted(GOLDEN.glob("*.values.yaml"))]:
        if path.suffix == ".md":
            continue
        total.update(f"{path.relative_to(ROOT)} {path.stat().st_size}\n".encode())
        total.update(path.read_bytes())
    return total.hexdigest() + "\n"


def documents(text):
    return [document for document in yaml.safe_load_all(text) if document]


@functools.cache
def golden(name):
    return documents((GOLDEN / f"{name}.yaml").read_text())


def the(manifests, kind, suffix=None):
    """The only manifest of the kind, or the one whose name ends so."""
    found = [manifest for manifest in manifests if manifest["kind"] == kind
             and (suffix is None or manifest["metadata"]["name"].endswith(suffix))]
    if len(found) != 1:
        raise AssertionError(f"{len(found)} manifests of kind {kind}, name *{suffix or ''}")
    return found[0]


class NoTool(Exception):
    """Why a tool is not here."""


def tool(name, *, install):
    """The path of a program; None where it is neither here nor to be installed."""
    if path := shutil.which(name):
        return path
    if not install and name not in cached_tools():
        raise NoTool(f"{name} is not here; scripts/install_deploy_tools {name} installs it")
    outcome = subprocess.run([INSTALL_TOOLS, name], capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise NoTool(f"{name} cannot be installed here: {outcome.stderr.strip()}")
    return str(pathlib.Path(outcome.stdout.strip()) / name)


def cached_tools():
    script = INSTALL_TOOLS.read_text()
    place = re.search(r"^tools=(.+)$", script, re.M).group(1)
    folder = subprocess.run(["bash", "-c", f"echo {place}"], capture_output=True, text=True,
                            check=True).stdout.strip()
    return [path.name for path in pathlib.Path(folder, "bin").glob("*") if path.exists()]


def helm(*words, program):
    """The outcome, its stderr without what helm says of each symbolic link."""
    outcome = subprocess.run([program, *map(str, words)], capture_output=True, text=True,
                             check=False)
    outcome.stderr = "".join(line for line in outcome.stderr.splitlines(True)
                             if "found symbolic link in path" not in line)
    return outcome


def render(release, arguments, *, program, chart=CHART):
    return helm("template", release, chart, "--namespace", "stores", "--kube-version",
                KUBERNETES[-1], *arguments, program=program)

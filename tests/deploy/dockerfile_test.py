"""What of the Dockerfile can be held against this machine without building an image."""

import fnmatch
import pathlib
import re
import shutil
import subprocess
import unittest

import daemon
import system_test

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
# In every image of Debian.
ALWAYS_THERE = {"libc6", "libgcc-s1", "libstdc++6"}


def wanted_packages():
    install = re.search(r"--no-install-recommends \\\n((?:.*\\\n)*?)    rm ", DOCKERFILE).group(1)
    return set(install.replace("\\", "").replace("&&", "").split())


def needed_packages():
    """Of the libraries that the programs themselves name."""
    libraries = set()
    for program in (daemon.LODGEKVD, daemon.LODGECTL):
        text = subprocess.run(["readelf", "-d", program], check=True, capture_output=True,
                              text=True).stdout
        libraries |= set(re.findall(r"\(NEEDED\).*\[(.+)\]", text))
    places = [f"{top}/x86_64-linux-gnu/{name}" for name in libraries
              for top in ("/lib", "/usr/lib")]
    packages = subprocess.run(["dpkg", "-S", *places], check=False, capture_output=True,
                              text=True).stdout
    owners = {path.rsplit("/", 1)[1]: package
              for package, path in re.findall(r"^([^:, ]+)\S*: (\S+)$", packages, re.M)}
    missing = libraries - owners.keys()
    if missing:
        raise AssertionError(f"no package has {missing}")
    return set(owners.values())


class DockerfileTest(system_test.SystemTest):
    @unittest.skipUnless(shutil.which("readelf") and shutil.which("dpkg"), "no readelf or no dpkg")
    def test_its_libraries_are_those_of_the_programs(self):
        needed, wanted = needed_packages() - ALWAYS_THERE, wanted_packages()
        self.assertEqual(needed - wanted, set(), "needed, but not in the image")
        self.assertEqual(wanted - needed, set(), "in the image, but not needed")

    def test_the_health_check_is_told_of_every_variable(self):
        text = daemon.run(daemon.LODGECTL, "--help").stdout.decode()
        variables = set(re.findall(r"Env:(LODGEKV_\w+)", text)) - {"LODGEKV_SERVER"}
        self.assertGreater(len(variables), 4)
        told = re.search(r"((?:^#.*\n)+)HEALTHCHECK ", DOCKERFILE, re.M).group(1)
        self.assertEqual(set(re.findall(r"LODGEKV_\w+", told)), variables)

    def test_one_version(self):
        version = re.search(r"project\(lodgekv VERSION (\S+)",
                            (ROOT / "CMakeLists.txt").read_text()).group(1)
        self.assertIn(f"ARG VERSION={version}\n", DOCKERFILE)
        chart = (ROOT / "deploy/helm/lodgekv/Chart.yaml").read_text()
        self.assertIn(f"\nappVersion: {version}\n", chart)

    def test_it_runs_as_the_user_of_the_chart(self):
        user = re.search(r"^USER (\d+):(\d+)$", DOCKERFILE, re.M).groups()
        template = (ROOT / "deploy/helm/lodgekv/templates/statefulset.yaml").read_text()
        self.assertEqual(re.findall(r"runAs(?:User|Group): (\d+)", template), list(user))

    def test_the_context_has_sources_alone(self):
        lines = (ROOT / ".dockerignore").read_text().splitlines()
        rules = [line for line in lines if line and not line.startswith("#")]
        self.assertEqual(rules[0], "*", "what is not named stays out")
        named = {rule[1:] for rule in rules[1:]}
        self.assertTrue(all(rule.startswith("!") for rule in rules[1:]), rules)
        for name in named - {"prebuilt"}:
            self.assertTrue((ROOT / name).exists(), f"{name} is named and not there")
        folders = re.search(r"foreach\(folder (.*)\)", (ROOT / "CMakeLists.txt").read_text())
        for folder in set(folders.group(1).split()) - {"bench", "tests"}:
            self.assertIn(folder, named, "a folder of the build")
        for secret in ("build", "data", ".git", "server.key"):
            self.assertFalse(any(fnmatch.fnmatch(secret, name) for name in named), secret)


if __name__ == "__main__":
    system_test.main()

#!/usr/bin/env python3
"""The scripts' own promises: packages are installed once, failures propagate, the merged test run
takes what it should, and continuous integration ends in the runner's closing lines."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEBIAN = 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12"\n'


class ScriptTest(unittest.TestCase):
    """A temporary folder, with a folder `bin` of stand-ins that come first on the PATH."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.bin = self.folder / "bin"
        self.bin.mkdir()

    def program(self, name, body):
        path = self.bin / name
        path.write_text("#!/bin/bash\n" + textwrap.dedent(body))
        path.chmod(0o755)

    def call(self, *command, cwd=None, **environment):
        result = subprocess.run(
            command, cwd=cwd or self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", **environment})
        return result.returncode, result.stdout


class InstallPackagesTest(ScriptTest):
    """Against a stand-in package manager that keeps its state in two files."""

    def setUp(self):
        super().setUp()
        self.installed = self.folder / "installed"
        self.log = self.folder / "log"
        self.installed.touch()
        self.log.touch()
        (self.folder / "os-release").write_text(DEBIAN)
        self.program("id", "echo 0")
        self.program("dpkg-query", f"""
            grep -qx -- "${{!#}}" {self.installed} || exit 1
            echo -n installed
            """)
        self.program("apt-get", f"""
            echo "$*" >> {self.log}
            if [ "$1" = install ]; then
              for argument in "${{@:2}}"; do
                case $argument in -*) ;; *) echo "$argument" >> {self.installed} ;; esac
              done
            fi
            """)

    def install(self, *arguments, **environment):
        environment.setdefault("LODGEKV_OS_RELEASE", str(self.folder / "os-release"))
        environment.setdefault("LODGEKV_INSTALL", "yes")
        environment.setdefault("LODGEKV_SYSTEMD_RUNS", str(self.folder / "no-systemd"))
        return self.call(str(ROOT / "scripts/install_packages"), *arguments, **environment)

    def test_installs_once(self):
        status, output = self.install()
        self.assertEqual(status, 0, output)
        self.assertIn("libpmemobj-dev", self.installed.read_text().split())
        self.assertNotIn("clang-tidy", self.installed.read_text().split())
        calls = self.log.read_text()
        self.assertEqual(calls.count("update"), 1)
        status, output = self.install()
        self.assertEqual((status, output), (0, ""))
        self.assertEqual(self.log.read_text(), calls, "the second call asked the package manager")

    def test_asks_only_for_what_is_missing(self):
        self.install()
        kept = [line for line in self.installed.read_text().split() if line != "ccache"]
        self.installed.write_text("\n".join(kept) + "\n")
        self.log.write_text("")
        self.install()
        self.assertRegex(self.log.read_text(), r"(?m)^install (-\S+ )+ccache$")

    def test_lint_tools_on_request(self):
        self.install("--lint")
        self.assertIn("clang-tidy", self.installed.read_text().split())

    def test_prometheus_is_installed_and_not_started(self):
        self.program("systemctl", f'echo "systemctl $*" >> {self.log}')
        self.install(LODGEKV_SYSTEMD_RUNS=str(self.folder))
        self.assertRegex(self.log.read_text(), r"systemctl mask --runtime .*prometheus.service\n"
                         r"update .*\ninstall .* prometheus.*\nsystemctl unmask --runtime .*\n"
                         r"systemctl disable ")
        self.log.write_text("")
        self.installed.write_text(self.installed.read_text().replace("ccache\n", ""))
        self.install(LODGEKV_SYSTEMD_RUNS=str(self.folder))
        self.assertNotIn("systemctl", self.log.read_text())

    def test_servers_to_compare_with_are_not_started(self):
        self.program("systemctl", f'echo "systemctl $*" >> {self.log}')
        self.install("--bench", LODGEKV_SYSTEMD_RUNS=str(self.folder))
        self.assertRegex(self.log.read_text(),
                         r"systemctl mask .*redis-server.service etcd.service")
        self.assertEqual(set(self.installed.read_text().split()) -
                         {"redis-server", "etcd-server", "wamerican"}, set())

    def test_failure_propagates(self):
        self.program("apt-get", "exit 100")
        status, output = self.install()
        self.assertEqual(status, 1)
        self.assertIn("apt-get update failed", output)

    def test_other_systems_are_refused(self):
        other = self.folder / "other-release"
        other.write_text('ID=fedora\nVERSION_ID=40\nPRETTY_NAME="Fedora Linux 40"\n')
        status, output = self.install(LODGEKV_OS_RELEASE=str(other))
        self.assertEqual(status, 1)
        self.assertIn("this is Fedora Linux 40, not Debian 12", output)
        self.assertEqual(self.log.read_text(), "")
        status, output = self.install(LODGEKV_OS_RELEASE=str(other), LODGEKV_INSTALL="no")
        self.assertEqual((status, output), (0, ""))

    def test_without_rights(self):
        self.program("id", "echo 1000")
        self.program("sudo", 'shift; echo "as root: $*"; exec "$@"')
        status, output = self.install()
        self.assertEqual(status, 0, output)
        self.assertIn("as root: apt-get update", output)


class TestDaxTest(ScriptTest):
    def call_script(self, *arguments, system=DEBIAN):
        (self.folder / "os-release").write_text(system)
        return self.call(ROOT / "scripts/test_dax", *arguments, LODGEKV_INSTALL="yes",
                         LODGEKV_OS_RELEASE=str(self.folder / "os-release"))

    def test_skips_where_packages_cannot_be_installed(self):
        status, output = self.call_script(self.folder, system='ID=other\nPRETTY_NAME="Other 3"\n')
        self.assertEqual(status, 0, output)
        self.assertIn("this is Other 3, not Debian 12", output)
        self.assertIn("SKIPPED", output)

    def test_a_folder_without_the_programs(self):
        self.program("dpkg-query", "echo -n installed")
        status, output = self.call_script(self.folder)
        self.assertEqual(status, 1, output)
        self.assertIn(f"there is no {self.folder}/bin/lodgekvd", output)


class MergeTestsTest(ScriptTest):
    """Over hand-written test directories of three presets."""

    def setUp(self):
        super().setUp()
        for preset in ("release", "asan"):
            self.add(preset, "quick", "true", "unit")
            self.add(preset, "long", "true", "unit;torture")
            self.add(preset, "whole", "true", "system")

    def add(self, preset, name, command, labels):
        folder = self.folder / "build" / preset
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "CTestTestfile.cmake"
        text = file.read_text() if file.exists() else ""
        text += (f'add_test({name} "{shutil.which(command)}")\n'
                 f'set_tests_properties({name} PROPERTIES TIMEOUT 10 LABELS "{labels}")\n')
        file.write_text(text)

    def merge(self, *rows):
        return self.call(str(ROOT / "scripts/merge_tests"), "build/check", *rows)

    def ctest(self, *arguments):
        return self.call("ctest", "--test-dir", "build/check", *arguments)

    def names(self):
        return re.findall(r"Test +#\d+: (\S+)", self.ctest("-N")[1])

    def test_takes_the_labels_of_each_preset(self):
        status, output = self.merge("release=unit,system", "asan=unit")
        self.assertEqual(status, 0, output)
        self.assertEqual(self.names(), ["quick", "whole", "asan/quick"])

    def test_takes_long_tests_only_on_request(self):
        self.merge("release=unit,torture")
        self.assertEqual(self.names(), ["quick", "long"])

    def test_closing_lines_and_status(self):
        self.merge("release=unit", "asan=unit")
        status, output = self.ctest()
        self.assertEqual(status, 0)
        self.assertIn("100% tests passed, 0 tests failed out of 2", output)
        self.add("asan", "broken", "false", "unit")
        self.merge("release=unit", "asan=unit")
        status, output = self.ctest()
        self.assertNotEqual(status, 0)
        self.assertIn("asan/broken", output[output.index("The following tests FAILED"):])

    def test_sanitized_tests_get_time_and_options(self):
        self.merge("release=unit", "asan=unit")
        merged = (self.folder / "build/check/CTestTestfile.cmake").read_text()
        release, asan = merged.split("add_test([==[asan/quick]==]")
        self.assertIn("TIMEOUT [==[10.0]==]", release)
        self.assertNotIn("ASAN_OPTIONS", release)
        self.assertIn("TIMEOUT [==[30.0]==]", asan)
        self.assertIn("ASAN_OPTIONS", asan)

    def test_refuses_what_no_run_would_include(self):
        self.add("release", "stray", "true", "misc")
        status, output = self.merge("release=unit")
        self.assertEqual(status, 1)
        self.assertIn("stray has none of the labels", output)

    def test_refuses_an_unknown_label(self):
        status, output = self.merge("release=unti")
        self.assertEqual(status, 1)
        self.assertIn("unknown label unti", output)

    def test_refuses_a_program_that_was_not_built(self):
        file = self.folder / "build/release/CTestTestfile.cmake"
        file.write_text('add_test(gone "/nowhere/gone")\n'
                        'set_tests_properties(gone PROPERTIES LABELS unit)\n')
        status, output = self.merge("release=unit")
        self.assertEqual(status, 1)
        self.assertIn("the program of test gone is not in build/release", output)


class CheckCommitsTest(ScriptTest):
    """In a repository of its own, whose first commit brings the check."""

    def setUp(self):
        super().setUp()
        (self.folder / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/check_commits", self.folder / "scripts")
        self.git("init", "--quiet")
        self.commit("whatever was here before")
        self.git("add", "scripts")
        self.commit("the check.")

    def git(self, *words):
        status, output = self.call("git", "-c", "user.name=a", "-c", "user.email=a@b", *words)
        self.assertEqual(status, 0, output)

    def commit(self, message):
        self.git("commit", "--quiet", "--allow-empty", "-m", message)

    def check(self, *words):
        return self.call(str(self.folder / "scripts/check_commits"), *words)

    def test_messages_of_before_the_check_are_left_alone(self):
        self.assertEqual(self.check(), (0, "check_commits: 0 messages, 0 faults\n"))
        self.assertEqual(self.check("HEAD~1..HEAD")[0], 1)

    def test_a_subject_in_the_imperative_with_a_body_passes(self):
        for subject in ("Fence before a slot is reused", "Embed " + "x" * 66, "Re-read the header"):
            self.commit(subject + "\n\nA crash in between lost the pair.")
        self.commit('Revert "Fence before a slot is reused"')
        self.assertEqual(self.check(), (0, "check_commits: 4 messages, 0 faults\n"))

    def test_each_fault_is_told(self):
        for message, fault in (("Fence " + "x" * 67 + "\n\nWhy.", "73 characters"),
                               ("fence before\n\nWhy.", "capital letter"),
                               ("Tests: fence before\n\nWhy.", "no prefix"),
                               ("Fenced before\n\nWhy.", "no imperative"),
                               ("Fence before.\n\nWhy.", "full stop"),
                               ("Fence before", "no body"),
                               ("Fence before\nWhy.", "no empty line"),
                               ("Fence before\n\n" + "w" * 101, "101 columns")):
            with self.subTest(message=message):
                self.commit(message)
                status, output = self.check("HEAD~1..HEAD")
                self.assertEqual(status, 1)
                self.assertIn(fault, output)


class CiTest(ScriptTest):
    """.ci/run with a stand-in for make."""

    CLOSING = "100% tests passed, 0 tests failed out of 9\n\nTotal Test time (real) =   1.00 sec"

    def ci(self, body):
        self.program("make", body)
        return self.call(str(ROOT / ".ci/run"))

    def test_ends_in_the_closing_lines(self):
        status, output = self.ci(f'echo "building"; echo "{self.CLOSING}"; echo "make: done"')
        self.assertEqual(status, 0)
        self.assertTrue(output.rstrip().endswith(self.CLOSING), output)

    def test_failing_tests(self):
        status, output = self.ci('echo "50% tests passed, 1 tests failed out of 2"; exit 2')
        self.assertEqual(status, 2)
        self.assertTrue(output.rstrip().endswith("1 tests failed out of 2"), output)

    def test_failing_build(self):
        status, output = self.ci('echo "error: no such file"; exit 2')
        self.assertEqual(status, 2)
        self.assertIn("before any test ran", output)


if __name__ == "__main__":
    sys.exit(unittest.main())

"""promtool over the rules: that they can be read, and deploy/prometheus/rules_test.yml."""

import shutil
import subprocess
import tempfile
import unittest

import artefacts


def promtool(*words):
    return subprocess.run(["promtool", *map(str, words)], capture_output=True, check=False,
                          timeout=60)


class RulesTest(unittest.TestCase):
    def assert_success(self, outcome):
        text = outcome.stdout + outcome.stderr
        self.assertEqual(outcome.returncode, 0, text.decode(errors="replace"))

    def test_they_can_be_read(self):
        self.assert_success(promtool("check", "rules", artefacts.RULES))

    def test_they_do_what_their_tests_say(self):
        self.assert_success(promtool("test", "rules", artefacts.RULES_TEST))

    def test_the_example_of_a_configuration_can_be_read(self):
        self.assert_success(promtool("check", "config", artefacts.RULES.parent / "prometheus.yml"))

    def test_a_rule_that_is_wrong_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            wrong = artefacts.RULES.read_text().replace("lodgekv_pool_full == 1",
                                                        "lodgekv_pool_full == 2")
            path = shutil.copy(artefacts.RULES_TEST, folder)
            with open(f"{folder}/rules.yml", "w", encoding="utf-8") as file:
                file.write(wrong)
            self.assertNotEqual(promtool("test", "rules", path).returncode, 0)


if __name__ == "__main__":
    if shutil.which("promtool"):
        unittest.main(verbosity=2)
    else:
        print("SKIPPED: no promtool here; Debian's package prometheus has it")

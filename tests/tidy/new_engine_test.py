#!/usr/bin/env python3
"""scripts/new_engine in a copy of the tree: what it makes is registered, keeps the style, builds,
and says of itself what is not written; what it refuses changes nothing."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import source_file

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What an author sees of the skeleton before and after Create is written.
TRY = """
#include <cstdio>

#include "index/@/@.h"

namespace lodgekv::@ {
const EngineInfo& GetEngineInfo();
}

using namespace lodgekv;

template <class C>
void Use() {
  @::Class<C> engine{EngineContext{}};
  const WriteOp op = {.key = "12345678", .value = "12345678"};
  WriteResult written;
  const std::string_view key = op.key;
  ReadResult read;
  if (engine.Write({&op, 1}, {&written, 1}, {}) == Outcome::kOk) std::puts("BAD: a write is ok");
  if (written.outcome == Outcome::kOk) std::puts("BAD: a result of a write is ok");
  if (engine.Read({&key, 1}, {&read, 1}, {}) == Outcome::kOk) std::puts("BAD: a read is ok");
  if (read.outcome == Outcome::kOk) std::puts("BAD: a result of a read is ok");
  const auto visit = [](const ScanItem&) { return true; };
  if (engine.Scan({}, visit) == Outcome::kOk) std::puts("BAD: a scan is ok");
  const CheckReport report = engine.Check();
  if (report.problem_count != report.problems.size()) std::puts("BAD: problems are not counted");
  for (const std::string& problem : report.problems) std::puts(problem.c_str());
}

int main() {
  const EngineInfo& info = @::GetEngineInfo();
  std::printf("name %s, paper %s\\n", info.name.data(), info.paper.data());
  for (const KeyFormat format : {KeyFormat::kBytes, KeyFormat::kFixed64}) {
    EngineContext context;
    context.key_format = format;
    RecoveryReport report;
    std::puts(info.create(context).status().ToString().c_str());
    std::puts(info.recover(context, &report).status().ToString().c_str());
  }
  Use<Fixed64Codec>();
  Use<BytesCodec>();
}
"""

# The object files of the skeleton alone: its libraries need not be built for this.
TRY_TARGET = """
add_executable(try_skeleton try.cc $<TARGET_OBJECTS:lodgekv_@>)
target_link_libraries(try_skeleton PRIVATE lodgekv_flags absl::status absl::statusor)
"""


class NewEngineTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.original = cls.folder / "original"
        for path in source_file.list_paths(ROOT):
            if (ROOT / path).is_file():
                (cls.original / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, cls.original / path)

    def setUp(self):
        self.tree = self.folder / "tree"
        shutil.copytree(self.original, self.tree)
        self.addCleanup(shutil.rmtree, self.tree)

    def call(self, *command):
        result = subprocess.run([str(word) for word in command], cwd=self.tree, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env={**os.environ, "CCACHE_BASEDIR": str(self.tree),
                                     "CCACHE_NOHASHDIR": "1"})
        return result.returncode, result.stdout

    def begin(self, *arguments):
        return self.call("scripts/new_engine", *arguments)

    def registered(self):
        lines = (self.tree / "index/CMakeLists.txt").read_text().splitlines()
        return [line for line in lines if line.startswith("lodgekv_add_engine(")]

    def test_one_folder_and_one_line(self):
        before = self.registered()
        files = set(source_file.list_paths(self.tree))
        status, output = self.begin("skeleton", "--class", "SkeletonTree")
        self.assertEqual(status, 0, output)
        for word in ("scripts/build release lodgekv_skeleton", "docs/adding_an_engine.md"):
            self.assertIn(word, output)
        added = set(source_file.list_paths(self.tree)) - files
        self.assertEqual({path.rpartition("/")[0] for path in added}, {"index/skeleton"})
        self.assertIn("index/skeleton/skeleton.cc", added)
        after = self.registered()
        self.assertEqual([line for line in after if line not in before],
                         ["lodgekv_add_engine(skeleton)"])
        volatile = next(i for i, line in enumerate(after) if "(dram" in line)
        self.assertEqual(after[volatile - 1], "lodgekv_add_engine(skeleton)")
        self.assertEqual([line for line in after if line in before], before)

    def test_keeps_the_style(self):
        # The longest names that are taken, where lines are longest.
        name = "abcdefghijkl"
        status, output = self.begin(name, "--class", "AbcdefghijklmnoP", "--paper", "p" * 60)
        self.assertEqual(status, 0, output)
        for file in (self.tree / "index" / name).iterdir():
            self.assertNotRegex(file.read_text(), r"@\w+@", file)
        _, output = self.call(sys.executable, "-B", "tests/tidy/style_test.py", ".")
        self.assertRegex(output, r"C\+\+ functions, \d+ findings")
        self.assertEqual([line for line in output.splitlines() if name in line], [])

    def test_builds_and_says_what_is_not_written(self):
        status, output = self.begin("skeleton", "--class", "Class", "--paper", "A paper, 2013")
        self.assertEqual(status, 0, output)
        # Layers above the index take longer to configure than the skeleton to build.
        for folder in ("base", "bench", "client", "proto", "server", "tests"):
            shutil.rmtree(self.tree / folder)
        (self.tree / "try.cc").write_text(TRY.replace("@", "skeleton"))
        with open(self.tree / "CMakeLists.txt", "a") as file:
            file.write(TRY_TARGET.replace("@", "skeleton"))
        status, output = self.call(
            "cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-D", "CMAKE_BUILD_TYPE=Debug",
            "-D", "LODGEKV_BUILD_TESTS=OFF",
            "-D", f"CMAKE_CXX_COMPILER_LAUNCHER={shutil.which('ccache') or ''}")
        self.assertEqual(status, 0, output)
        self.assertIn("&skeleton::GetEngineInfo(),",
                      (self.tree / "build/index/engine_list.inc").read_text())
        status, output = self.call("cmake", "--build", "build", "--target", "try_skeleton")
        self.assertEqual(status, 0, output)

        status, output = self.call("build/bin/try_skeleton")
        self.assertEqual(status, 0, output)
        self.assertNotIn("BAD", output)
        self.assertIn("name skeleton, paper A paper, 2013", output)
        for what, file in (("Create", "skeleton.cc"), ("Recover", "recovery.cc")):
            message = f"skeleton: {what} in index/skeleton/{file} is not written"
            self.assertEqual(output.count(message), 2, output)
        for what, file in (("Write", "write.cc"), ("Read", "read.cc"), ("Scan", "scan.cc"),
                           ("Check", "check.cc"), ("Close", "skeleton.cc")):
            self.assertEqual(output.count(f"index/skeleton/{file}: {what} is not written"), 2,
                             output)

    def test_refusals_change_nothing(self):
        before = self.call("sh", "-c", "find . -type f | sort | xargs cksum")
        for name, reason in (("lodgetree", "index/lodgetree is there already"),
                             ("pmem", "index/pmem is there already"),
                             ("Tree", "lower-case letters"), ("my_tree", "lower-case letters"),
                             ("7tree", "a letter first"), ("x", "2 to 12"),
                             ("abcdefghijklm", "2 to 12"), ("../tree", "lower-case letters"),
                             ("union", "a word of C++"), ("absl", "hide the namespace"),
                             ("test", "hide the namespace"), ("media", "hide the namespace"),
                             ("store", "lodgekv_store, which is taken")):
            status, output = self.begin(name)
            self.assertEqual(status, 1, output)
            self.assertIn(f"no engine can be named '{name}'", output)
            self.assertIn(reason, output)
        for arguments, reason in ((("--class", "tree"), "no class is named 'tree'"),
                                  (("--paper", 'a "title"'), "--paper has 1 to 60")):
            status, output = self.begin("skeleton", *arguments)
            self.assertEqual(status, 1, output)
            self.assertIn(reason, output)
        self.assertEqual(self.call("sh", "-c", "find . -type f | sort | xargs cksum"), before)

    def test_not_twice(self):
        self.assertEqual(self.begin("skeleton")[0], 0)
        before = self.registered()
        status, output = self.begin("skeleton")
        self.assertEqual(status, 1)
        self.assertIn("index/skeleton is there already", output)
        self.assertEqual(self.registered(), before)

    def test_no_place_to_register(self):
        (self.tree / "index/CMakeLists.txt").write_text("add_subdirectory(pmem)\n")
        status, output = self.begin("skeleton")
        self.assertEqual(status, 1)
        self.assertIn("has no line lodgekv_add_engine(dram", output)
        self.assertFalse((self.tree / "index/skeleton").exists())


if __name__ == "__main__":
    sys.exit(unittest.main())

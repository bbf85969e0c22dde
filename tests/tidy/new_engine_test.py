#!/usr/bin/env python3
"""scripts/new_engine in a copy of the tree: what it makes is registered, keeps the style, builds,
says of itself what is not written, and works once it is; what it refuses changes nothing."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import source_file

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What both programs begin with: pools in plain memory.
POOL = """
#include <cstdio>
#include <cstdlib>
#include <string>

#include "index/@/@.h"

namespace lodgekv::@ {
const EngineInfo& GetEngineInfo();
}

using namespace lodgekv;

constexpr size_t kPoolBytes = 1 << 20;

pmem::Pool::ArenaOptions Memory() {
  static auto* const memory = static_cast<std::byte*>(std::aligned_alloc(4096, kPoolBytes));
  pmem::Pool::ArenaOptions options;
  options.memory = {memory, kPoolBytes};
  return options;
}

std::unique_ptr<pmem::Pool> NewPool() {
  pmem::PoolIdentity identity;
  identity.engine = "@";
  return *pmem::Pool::CreateArena(Memory(), identity);
}

EngineContext ContextOf(pmem::Pool& pool, KeyFormat format) {
  EngineContext context;
  context.pool = &pool;
  context.key_format = format;
  return context;
}
"""

# What an author sees of the skeleton before anything is written, and what is answered although
# Create is passed by.
TRY = POOL + """
template <class C>
void Use(const EngineContext& context) {
  @::Class<C> engine{context};
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
    const auto pool = NewPool();
    const EngineContext context = ContextOf(*pool, format);
    RecoveryReport report;
    std::puts(info.create(context).status().ToString().c_str());
    std::puts(info.recover(context, &report).status().ToString().c_str());
    format == KeyFormat::kBytes ? Use<BytesCodec>(context) : Use<Fixed64Codec>(context);
  }
}
"""

# The least that a tree can fill in: a leaf is a number and so many pairs, there is but one, and no
# thought is given to crashes. What stands on the shared parts then has to work.
FILLED = {
    "leaf.h": [(
        "inline unsigned CopyPairs(const media::Leaf&, Pair*) { return 0; }",
        """inline unsigned CopyPairs(const media::Leaf& leaf, Pair* pairs) {
  const auto count = static_cast<unsigned>(leaf.words[0].Load() % (kMostPairs + 1));
  for (unsigned i = 0; i < count; ++i) {
    pairs[i] = {leaf.words[2 * i + 1].Load(), leaf.words[2 * i + 2].Load()};
  }
  return count;
}""")],
    "write.cc": [(
        """Outcome PairWriter<C>::Put(const LockedLeaf&, const Key&, Pair) {
  return Outcome::kDataLoss;""",
        """Outcome PairWriter<C>::Put(const LockedLeaf& locked, const Key&, Pair pair) {
  media::Word* words = locked.leaf->words;
  Pair pairs[kMostPairs];
  unsigned count = CopyPairs(*locked.leaf, pairs);
  unsigned at = 0;
  while (at < count && !(locked.found() && pairs[at].value == locked.FoundPair().value)) ++at;
  if (at == kMostPairs) return Outcome::kPoolFull;
  locked.lock->BeginPublish();
  tree_.medium.Store(words[2 * at + 1], pair.key);
  tree_.medium.Store(words[2 * at + 2], pair.value);
  if (at == count) tree_.medium.Store(words[0], count + 1);
  tree_.medium.Persist(locked.leaf, sizeof(*locked.leaf));
  locked.lock->EndPublish();
  if (at < count) tree_.RetireRecord(pairs[at].value);
  return Outcome::kOk;"""), (
        "void PairWriter<C>::Remove(const LockedLeaf&, const Key&) {}",
        """void PairWriter<C>::Remove(const LockedLeaf& locked, const Key&) {
  media::Word* words = locked.leaf->words;
  Pair pairs[kMostPairs];
  const unsigned last = CopyPairs(*locked.leaf, pairs) - 1;
  unsigned at = 0;
  while (pairs[at].value != locked.FoundPair().value) ++at;
  locked.lock->BeginPublish();
  tree_.medium.Store(words[2 * at + 1], pairs[last].key);
  tree_.medium.Store(words[2 * at + 2], pairs[last].value);
  tree_.medium.Store(words[0], last);
  tree_.medium.Persist(locked.leaf, sizeof(*locked.leaf));
  locked.lock->EndPublish();
  tree_.RetireRecord(pairs[at].value);
}"""), (
        "return false;\n}", "return true;\n}")],
    "recovery.cc": [(
        """absl::Status Recovery<C>::LookThrough(std::vector<Child>*) {
  return NotWritten("LookThrough");""",
        """absl::Status Recovery<C>::LookThrough(std::vector<Child>* children) {
  const pmem::Offset leaf = chain_.Leaves(0, 1)[0];
  children->push_back({C::MinusInfinity(), tree_.LeafAt(leaf)});
  Pair pairs[kMostPairs];
  const unsigned count = CopyPairs(*tree_.LeafAt(leaf), pairs);
  if constexpr (C::kRecords) {
    for (unsigned i = 0; i < count; ++i) (void)tree_.slab.Mark(C::RecordOf(pairs[i].value));
  }
  report_.keys = count;
  return absl::OkStatus();""")],
}
WRITTEN = ("Create", "CopyPairs", "Put", "Remove", "SetAside", "LookThrough")

USE = POOL + """
void Expect(bool holds, const char* what) {
  if (!holds) std::printf("BAD: %s\\n", what);
}

std::string Get(Engine& engine, std::string_view key) {
  ReadResult read;
  Expect(engine.Read({&key, 1}, {&read, 1}, {}) == Outcome::kOk, "a read");
  return read.found ? read.value : "none";
}

std::string All(Engine& engine, bool reverse) {
  std::string all;
  const auto visit = [&](const ScanItem& item) {
    all.append(item.key).append(item.value).append(" ");
    return true;
  };
  Expect(engine.Scan({.reverse = reverse}, visit) == Outcome::kOk, "a scan");
  return all;
}

void Write(Engine& engine, std::vector<WriteOp> ops, WriteOptions options = {}) {
  std::vector<WriteResult> results(ops.size());
  Expect(engine.Write(ops, results, options) == Outcome::kOk, "a write");
}

void Change(Engine& engine) {
  Write(engine, {{.key = "bbbbbbbb", .value = "12345678"}});
  Write(engine, {{.key = "cccccccc", .value = "00000001"}, {.key = "aaaaaaaa", .value = "00000002"},
                 {.key = "bbbbbbbb", .value = "00000003"},
                 {.key = "dddddddd", .value = "00000004"}});
  Write(engine, {{.kind = WriteKind::kDelete, .key = "cccccccc"}});
  Write(engine, {{.key = "eeeeeeee", .value = "00000005"},
                 {.kind = WriteKind::kDelete, .key = "dddddddd"}},
        {.atomic = true, .applied_index = 7});
  const WriteOp refused = {
      .condition = Condition::kIfAbsent, .key = "aaaaaaaa", .value = "00000009"};
  WriteResult result;
  Expect(engine.Write({&refused, 1}, {&result, 1}, {}) == Outcome::kConditionFailed, "a condition");
}

void Compare(Engine& engine) {
  Expect(Get(engine, "bbbbbbbb") == "00000003", "an update");
  Expect(Get(engine, "cccccccc") == "none", "a delete");
  Expect(All(engine, false) == "aaaaaaaa00000002 bbbbbbbb00000003 eeeeeeee00000005 ", "the order");
  Expect(All(engine, true) == "eeeeeeee00000005 bbbbbbbb00000003 aaaaaaaa00000002 ", "in reverse");
  Expect(engine.AppliedIndex() == 7, "the applied index");
  Expect(engine.CountKeys() == 3, "the keys");
  const CheckReport report = engine.Check();
  Expect(report.keys == 3 && report.leaves == 1, "the report");
  for (const std::string& problem : report.problems) std::puts(problem.c_str());
}

int main() {
  const EngineInfo& info = @::GetEngineInfo();
  for (const KeyFormat format : {KeyFormat::kBytes, KeyFormat::kFixed64}) {
    auto pool = NewPool();
    auto engine = *info.create(ContextOf(*pool, format));
    pool->MarkEngineCreated();
    Change(*engine);
    Compare(*engine);
    // As after a crash.
    engine.reset();
    pool.reset();
    pool = *pmem::Pool::OpenArena(Memory());
    RecoveryReport report;
    engine = *info.recover(ContextOf(*pool, format), &report);
    Compare(*engine);
    Expect(engine->Close().ok(), "the end");
    std::puts("used");
  }
}
"""

# Built with flags, and in a folder, that other builds have, too: a compiler cache knows the index.
TARGETS = """
foreach(program try use)
  if(EXISTS ${CMAKE_SOURCE_DIR}/${program}.cc)
    add_executable(${program}_skeleton ${program}.cc)
    target_link_libraries(${program}_skeleton PRIVATE lodgekv_flags lodgekv_skeleton)
  endif()
endforeach()
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
        # The longest accepted name, which gives the longest lines.
        name = "abcdefghijkl"
        status, output = self.begin(name, "--class", "AbcdefghijklmnoP", "--paper", "p" * 60)
        self.assertEqual(status, 0, output)
        for file in (self.tree / "index" / name).iterdir():
            self.assertNotRegex(file.read_text(), r"@\w+@", file)
        _, output = self.call(sys.executable, "-B", "tests/tidy/style_test.py", ".")
        self.assertRegex(output, r"C\+\+ functions, \d+ findings")
        self.assertEqual([line for line in output.splitlines() if name in line], [])

    def run_with_skeleton(self, program, text):
        """What a program over the skeleton alone prints."""
        # Layers above the index take longer to configure than the skeleton to build.
        for folder in ("base", "bench", "client", "proto", "server", "tests"):
            shutil.rmtree(self.tree / folder)
        (self.tree / f"{program}.cc").write_text(text.replace("@", "skeleton"))
        with open(self.tree / "CMakeLists.txt", "a") as file:
            file.write(TARGETS)
        status, output = self.call(
            "cmake", "-S", ".", "-B", "build/release", "-G", "Ninja",
            "-D", "CMAKE_BUILD_TYPE=Release", "-D", "CMAKE_CXX_FLAGS_RELEASE=-O3 -g1",
            "-D", "LODGEKV_BUILD_TESTS=OFF",
            "-D", f"CMAKE_CXX_COMPILER_LAUNCHER={shutil.which('ccache') or ''}")
        self.assertEqual(status, 0, output)
        self.assertIn("&skeleton::GetEngineInfo(),",
                      (self.tree / "build/release/index/engine_list.inc").read_text())
        target = f"{program}_skeleton"
        status, output = self.call("cmake", "--build", "build/release", "--target", target)
        self.assertEqual(status, 0, output)
        status, output = self.call(f"build/release/bin/{target}")
        self.assertEqual(status, 0, output)
        self.assertNotIn("BAD", output)
        return output

    def test_builds_and_says_what_is_not_written(self):
        status, output = self.begin("skeleton", "--class", "Class", "--paper", "A paper, 2013")
        self.assertEqual(status, 0, output)
        output = self.run_with_skeleton("try", TRY)
        self.assertIn("name skeleton, paper A paper, 2013", output)
        for what, file in (("Create", "skeleton.cc"), ("LookThrough", "recovery.cc")):
            message = f"skeleton: {what} in index/skeleton/{file} is not written"
            self.assertEqual(output.count(message), 2, output)
        for what, file in (("CopyPairs", "leaf.h"), ("Put", "write.cc"), ("Remove", "write.cc"),
                           ("SetAside", "write.cc"), ("WriteGroup", "write_group.h"),
                           ("CheckLeaf", "check.cc")):
            self.assertEqual(output.count(f"\n{what} in index/skeleton/{file} is not written"), 2,
                             output)

    def test_works_once_it_is_filled_in(self):
        status, output = self.begin("skeleton", "--class", "Class")
        self.assertEqual(status, 0, output)
        folder = self.tree / "index/skeleton"
        for name, changes in FILLED.items():
            text = (folder / name).read_text()
            for old, new in changes:
                self.assertEqual(text.count(old), 1, f"{name}: {old}")
                text = text.replace(old, new)
            (folder / name).write_text(text)
        unwritten = (folder / "unwritten.h").read_text()
        for name in WRITTEN:
            unwritten, count = re.subn(rf'\n *{{"{name}", .*', "", unwritten)
            self.assertEqual(count, 1, name)
        (folder / "unwritten.h").write_text(unwritten)
        output = self.run_with_skeleton("use", USE)
        self.assertEqual(output.count("\nused\n"), 2, output)
        # What is left is said whenever it is checked.
        self.assertEqual(output.count("is not written"), 4 * 2, output)

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

#!/usr/bin/env python3
"""Shows each style rule fail on a bad sample and pass on a good one, on real files in a temporary
tree, and the brace counter find the functions of awkward C++."""

import json
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

import rules
import source_file

STYLE_TEST = pathlib.Path(__file__).with_name("style_test.py")


def header(body):
    return "#pragma once\n" + body


def function_of(lines, name="F"):
    """A function whose signature, body and closing brace take that many lines."""
    return f"int {name}() {{\n" + "  Step();\n" * (lines - 2) + "}\n"


def class_of(methods, beside_name=""):
    return (f"class A {beside_name} {{\n public:\n  explicit A(int a);\n  ~A();\n"
            "  int size() const;\n"
            + "".join(f"  int F{i}(std::function<void()> f);\n" for i in range(methods)) + "};\n")


def point(name):
    return f'LODGEKV_CRASH_POINT(m, "{name}");\n'


DECISION = "# 0001. A\n\n## Context\n\n## Decision\n\n## Consequences\n"
SPLIT_TABLE = "**Split** (`tree.split`; [a.cc](a.cc))\n\n| 1 | a new leaf |\n"

# rule -> bad trees, each {path: text}. Words that the rules look for are split, so that this file
# passes.
BAD = {
    "include_direction": [
        {"server/a.cc": '#include "index/lodgetree/layout.h"\n'},
        {"server/a.cc": '#include "index/pmem/pool.h"\n'},
        {"index/lodgetree/a.cc": '#include "index/pmem/internal/pool_header.h"\n'},
        {"bench/a.cc": '#include "index/pmem/internal/pool_header.h"\n'},
        {"index/node/a.cc": '#include "index/pmem/testing/temp_dir.h"\n'},
        {"server/a.cc": '#include "client/lodgekv_client.h"\n'},
        {"server/a.cc": '#include "server/testing/fake_store.h"\n'},
        {"server/base/a.h": header('#include "server/config/config.h"\n')},
        {"server/tls/a.cc": '#include "server/config/config.h"\n'},
        {"server/rpc/a.cc": '#include "server/front_door/front_door.h"\n'},
        {"server/rpc/a.h": header('#include "server/lifecycle.h"\n')},
        {"server/forgotten/a.cc": '#include "server/base/log.h"\n'},
        {"base/a.cc": '#include "index/engine.h"\n'},
        {"index/lodgetree/a.cc": '#include "base/file_reader.h"\n'},
        {"index/lodgetree/a.cc": '#include "tests/support/allocation_counter.h"\n'},
        {"client/a.cc": '#include "index/engine.h"\n'},
        {"client/a.cc": '#include "server/base/limits.h"\n'},
        {"index/lodgetree/a.cc": '#include "index/sstree/layout.h"\n'},
        {"index/lodgetree/a_test.cc": '#include "index/dram/dram_engine.h"\n'},
        {"index/lodgetree/a.h": header('#include "server/base/limits.h"\n')},
        {"index/node/a.h": header('#include "index/lodgetree/layout.h"\n')},
        {"index/pmem/a.h": header('#include "index/node/version_lock.h"\n')},
        {"index/node/a.h": header('#include "index/art/tree.h"\n')},
        {"index/art/a.h": header('#include "index/sstree/layout.h"\n')},
        {"index/a.cc": '#include "index/lodgetree/lodgetree.h"\n'},
        {"index/lodgetree/a.cc": "#include <libpmemobj.h>\n"},
        {"bench/a.cc": "#include <libpmem.h>\n"},
        {"index/lodgetree/a.cc": '#include "layout.h"\n'},
        {"tests/crash/lab/a.cc": '#include "tests/crash/explorer/plan.h"\n'},
        {"tests/crash/scenarios/a.cc": '#include "tests/crash/schedule/program.h"\n'},
    ],
    "medium_access": [
        {"index/lodgetree/a.cc": "void F() { _mm_" + "clwb(p); }\n"},
        {"index/node/a.cc": "void F() { _mm_" + "sfence(); }\n"},
        {"server/a.cc": "void F() { pmem_" + "persist(p, 8); }\n"},
        {"index/store.cc": "void F() { fdata" + "sync(fd); }\n"},
        {"index/sstree/a.cc": "void F() { clf" + "lush(p); }\n"},
        {"index/sstree/a.cc": 'void F() { asm volatile("clw' + 'b (%0)" : : "r"(p)); }\n'},
    ],
    "engines_read_no_clock": [
        {"index/lodgetree/a.cc": "auto now = std::chrono::system_clock::now();\n"},
    ],
    "function_length": [
        {"index/a.cc": function_of(71) + "".join(function_of(3, f"G{i}") for i in range(20))},
        {"index/a.cc": function_of(36) + "".join(function_of(3, f"G{i}") for i in range(8))},
    ],
    "file_length": [{"index/a.cc": "int a;\n" * 801}],
    "line_length": [
        {"index/a.cc": "// " + "x" * 98 + "\n"},
        {"scripts/a": "#!/bin/bash\n# " + "x" * 99 + "\n"},
    ],
    "in_a_target": [{"index/forgotten.cc": "int a;\n"}],
    "file_names": [
        {"index/CamelCase.cc": "int a;\n"},
        {"index/a-b.h": header("int a;\n")},
        {"index/a.h": "int a;\n"},
    ],
    "no_machine_paths": [
        {"README.md": "see /wor" + "k/main\n"},
        {"config/dev.yaml": "pool: /far" + "m/pool\n"},
    ],
    "documents_name_what_is_there": [
        {"README.md": "[a](docs/a.md)\n"},
        {"docs/a.md": "[a](../README.md#there)\n"},
        {"README.md": "See `index/engine.h`.\n"},
    ],
    "nothing_unfinished": [
        {"index/a.cc": "// TO" + "DO: later\n"},
        {"scripts/a": "#!/bin/bash\n# FIX" + "ME\n"},
        {"index/a_test.cc": "TEST(ATest, DISABLED" + "_B) {}\n"},
        {"index/a_test.cc": "TEST(ATest, B) { GTEST_" + "SKIP(); }\n"},
    ],
    "no_dead_code": [
        {"index/a.cc": "//   medium.Fence();\n"},
        {"index/a.cc": "// int x = Old(y);\n"},
        {"index/a.h": header("// int x = Old(y);\n")},
        {"index/a.cc": "// return a->b(c);\n"},
        {"index/a.cc": "// if (x > 3) {\n"},
        {"index/a.cc": "// }\n"},
        {"index/a.cc": "#if 0\nint x;\n#endif\n"},
    ],
    "crash_points": [
        {"index/lodgetree/a.cc": 'LODGEKV_CRASH_POINT(m, "lodgetree.split");\n'},
        {"index/lodgetree/a.cc": 'LODGEKV_CRASH_POINT(m, "split.1");\n'},
        {"index/lodgetree/a.cc": 'LODGEKV_CRASH_POINT(m, "sstree.split.1");\n'},
        {"index/lodgetree/a.cc": "LODGEKV_CRASH_POINT(m, kName);\n"},
        {"index/lodgetree/a.cc": 'LODGEKV_CRASH_POINT(m, "lodgetree.split.1");\n',
         "index/lodgetree/b.cc": 'LODGEKV_CRASH_POINT(m, "lodgetree.split.1");\n'},
    ],
    "class_size": [
        {"index/a.h": header(class_of(46))},
        {"server/a.cc": "template <class T>\n" + class_of(46, "final : public Base")},
    ],
    "no_circles": [
        {"index/lodgetree/a.cc": "void Tree::Split() {\n  Drain();\n}\n",
         "index/lodgetree/b.cc": "void Tree::Drain() {\n  tree.Split(1);\n}\n"},
        {"index/lodgetree/a.cc": "void Tree<C>::A() {\n  B();\n}\n",
         "index/lodgetree/b.cc": "void Tree<C>::B() {\n  C();\n}\n",
         "index/lodgetree/c.cc": "template <class C>\nvoid Tree<C>::C() {\n  node->A();\n}\n"},
    ],
    "no_include_circles": [
        {"server/rpc/a.h": header('#include "server/rpc/b.h"\n'),
         "server/rpc/b.h": header('#include "server/rpc/a.h"\n')},
        {"client/a.cc": '#include "client/b.h"\n',
         "client/b.h": header('#include "client/c.h"\n'),
         "client/c.h": header('#include "client/a.h"\n')},
        {"index/pmem/a.h": header('#include "index/pmem/internal/b.h"\n'),
         "index/pmem/internal/b.h": header('#include "index/pmem/a.h"\n')},
        {"tests/support/a.h": header('#include "tests/support/b.h"\n'),
         "tests/support/b.h": header('#include "tests/support/c.h"\n'),
         "tests/support/c.h": header('#include "tests/support/a.h"\n')},
    ],
    "flush_makes_no_fence": [
        {"index/lodgetree/a.cc": "void Tree::FlushLeaf() {\n  medium_.Fence();\n}\n"},
        {"index/node/a.h": header("inline void Flush(Medium& m) { m.Persist(p, 8); }\n")},
    ],
    "suites_are_named_alike": [
        {"server/rpc/a_test.cc": "TEST(Admission, TakesWhatFits) {}\n"},
        {"client/a_test.cc": "TEST_F(TestOfClient, GivesUpAtTheTimeout) {}\n"},
    ],
    "crash_tables": [
        {"index/tree/a.cc": point("tree.split.1")},
        {"index/tree/README.md": SPLIT_TABLE},
        {"index/tree/a.cc": point("tree.split.2"), "index/tree/README.md": SPLIT_TABLE},
        {"index/tree/a.cc": point("tree.split.1"),
         "index/tree/README.md": SPLIT_TABLE + "| 2 | b |\n"},
        {"index/tree/a.cc": point("tree.split.1") + point("tree.split.2"),
         "index/tree/README.md": SPLIT_TABLE.replace("| 1 |", "| 2 | b |\n| 1 |")},
    ],
    "decisions_have_one_form": [
        {"docs/decisions/0001-a.md": DECISION, "docs/decisions/README.md": "none\n"},
        {"docs/decisions/0001-a.md": DECISION.replace("0001.", "0001:"),
         "docs/decisions/README.md": "[0001](0001-a.md)\n"},
        {"docs/decisions/0001-a.md": DECISION.replace("## Context", "**Context.**"),
         "docs/decisions/README.md": "[0001](0001-a.md)\n"},
    ],
    "documents_name_what_files_have": [
        {"index/tree/README.md": "`Tree::Split` ([a.cc](a.cc))\n", "index/tree/a.cc": "// Split\n"},
        {"ARCHITECTURE.md": "`Drain` and `Split` (`a.cc`)\n", "index/tree/a.cc": "void Drain();\n"},
    ],
}

GOOD = {
    "server/a.cc": '#include "index/engine.h"\n#include "proto/lodgekv/v1/kv.grpc.pb.h"\n'
                   '#include "server/rpc/a.h"\n#include "absl/status/status.h"\n',
    "server/rpc/a.h": header('#include "server/rpc/b.h"\n#include "server/base/limits.h"\n'),
    "server/rpc/a.cc": '#include "server/rpc/a.h"\n',
    "server/rpc/a_test.cc": '#include "server/rpc/a.h"\n#include "server/testing/b.h"\n'
                            "TEST_F(AdmissionTest, TakesWhatFits) {}\n",
    "client/a.cc": '#include "client/b.h"\n#include "lodgekv/v1/kv.pb.h"\n',
    "index/a.cc": '#include "index/pmem/pool.h"\n#include "engine_list.inc"\n',
    "index/pmem/a.h": header("class A;\n"),
    "index/pmem/internal/part_of_a.h": header('#include "index/pmem/a.h"\n'),
    "index/pmem/a.cc": '#include "index/pmem/a.h"\n#include <libpmemobj.h>\n'
                       '#include "index/pmem/internal/part_of_a.h"\n'
                       "// Waits for the clwb of this thread; msync is a last resort.\n"
                       "void F() { _mm_" + "sfence(); }\n",
    "index/lodgetree/a.h": header("// Use:\n//   NawSection section(medium);\nint a;\n"),
    "index/art/tree.h": header('#include "index/node/version_lock.h"\n'),
    "index/lodgetree/a.cc": '#include "index/node/version_lock.h"\n'
                            '#include "index/art/tree.h"\n'
                            '#include "index/lodgetree/layout.h"\n'
                            '// The commit word x = 3 (see README); the rest follows.\n'
                            'LODGEKV_CRASH_POINT(m, "lodgetree.leaf_split.1");\n'
                            'LODGEKV_CRASH_POINT(pool->medium(), "lodgetree.leaf_split.2");\n'
                            "void Tree::FlushLeaf() {\n  medium_.FlushLine(p);\n  Drain();\n}\n",
    "index/lodgetree/b.cc": "void Tree::Drain() {\n  node.Publish();\n}\n"
                            'void Tree::Merge() {\n'
                            '  LODGEKV_CRASH_POINT(m, "lodgetree.merge.1");\n}\n',
    "index/lodgetree/README.md": "**Split** (`lodgetree.leaf_split`; [a.cc](a.cc))\n\n| 1 | a |\n"
                                 "| | fence |\n| 2 | b |\n\n"
                                 "**Merge** (`lodgetree.merge`; `Merge` in `b.cc`)\n\n| 1 | a |\n",
    "index/lodgetree/large.h": header(class_of(45)),
    "index/a_test.cc": 'TEST(ATest, B) { GTEST_SKIP() << "no tmpfs here"; }\n' + function_of(70)
                       + "".join(function_of(35, f"G{i}") for i in range(9)),
    "tests/a.cc": '#include "index/lodgetree/layout.h"\n#include "server/base/limits.h"\n',
    "README.md": "See docs/work/main and https://example.org/work/farm/.\n"
                 "[a](docs/b.md#part) [b](https://example.org/b.md) [c](#here) `index/pmem/`\n"
                 "`server/a.cc` `index/*.h` `index/lodgetree/a` `x/y`\n",
    "docs/decisions/0001-a.md": DECISION,
    "docs/decisions/README.md": "[0001](0001-a.md)\n",
    "docs/b.md": "[up](../README.md) [here](b.md)\n",
}

# text -> (first line, lines) of each function in it.
FUNCTIONS = {
    "namespace lodgekv {\nnamespace {\nint A() { return 1; }\n}\n}\n": [(3, 1)],
    "class A : public B {\n public:\n  A() : b_{1}, c_(2) {\n    x = {3};\n  }\n  int c_{4};\n};\n":
        [(3, 3)],
    "struct S {\n  int a = 1;\n  S operator-(const S& o) const {\n    return {a - o.a};\n  }\n};\n":
        [(3, 3)],
    "const int kA[] = {1, 2};\nstd::vector<int> kB{1, 2};\nvoid F(int a,\n       int b) {\n}\n":
        [(3, 3)],
    "template <class T>\nvoid F(T t) {\n  auto f = [&](int a) {\n    G(a);\n  };\n}\n": [(1, 6)],
    'void F() {\n  G("}", \'{\', R"x(}}})x");  // }\n  /* } */\n}\nvoid H() {}\n': [(1, 4), (5, 1)],
    "#define A(x) \\\n  if (x) {\nvoid F() {\n  int n = 1\'000\'000;\n}\n": [(3, 3)],
    "enum class E : uint8_t { kA, kB };\nextern \"C\" {\nint F(struct S* s) {\n}\n}\n": [(3, 2)],
    "TEST_F(Pool, Opens) {\n  struct Local {\n    int F() { return 1; }\n  };\n}\n": [(1, 5)],
    "auto F() -> Type {\n}\nbool G() const noexcept {\n}\n": [(1, 2), (3, 2)],
}


def write(root, tree):
    for path, text in tree.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def findings_of(rule, tree):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        write(root, tree)
        sources = source_file.read_tree(root)
        return [str(f) for f in rules.RULES[rule](rules.Tree(sources, compiled=set()))]


def run_style_test(tree):
    """The exit status and output of the whole program over the tree, with every .cc compiled."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "tree"
        write(root, tree)
        database = pathlib.Path(folder) / "compile_commands.json"
        database.write_text(json.dumps(
            [{"file": str(root.resolve() / path)} for path in tree if path.endswith(".cc")]))
        result = subprocess.run(
            [sys.executable, str(STYLE_TEST), str(root), "--compile-commands", str(database)],
            capture_output=True, text=True)
        return result.returncode, result.stdout


class SelfTest(unittest.TestCase):
    def test_a_document_may_name_a_file_that_is_no_text(self):
        tree = {"README.md": "![a](docs/a.png)\n", "docs/a.png": "\x89PNG\0"}
        self.assertEqual(findings_of("documents_name_what_is_there", tree), [])

    def test_every_rule_has_a_bad_sample(self):
        self.assertEqual(set(BAD), set(rules.RULES))

    def test_bad_samples_fail(self):
        for rule, trees in BAD.items():
            for tree in trees:
                with self.subTest(rule=rule, tree=tree):
                    self.assertTrue(findings_of(rule, tree))

    def test_good_sample_passes(self):
        for rule in rules.RULES:
            if rule != "in_a_target":
                self.assertEqual(findings_of(rule, GOOD), [])
        status, output = run_style_test(GOOD)
        self.assertEqual(status, 0, output)

    def test_program_reports_place_and_rule_and_fails(self):
        status, output = run_style_test({"index/a.cc": "int a;\n// TO" + "DO: b\n"})
        self.assertEqual(status, 1)
        self.assertIn("index/a.cc:2: TO" + "DO: finish it", output)
        self.assertIn("[nothing_unfinished]", output)

    def test_functions_are_found(self):
        for text, expected in FUNCTIONS.items():
            with self.subTest(text=textwrap.shorten(text, 60)):
                functions = source_file.SourceFile("a.cc", text).functions
                self.assertEqual([(f.line, f.lines) for f in functions], expected)


if __name__ == "__main__":
    unittest.main()

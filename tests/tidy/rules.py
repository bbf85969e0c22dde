"""The style rules. Each takes a Tree and yields findings; `RULES` lists them by name.

What they keep is said in CONTRIBUTING.md; self_test.py shows each of them fail on a bad sample.
"""

import collections
import dataclasses
import json
import pathlib
import posixpath
import re

import structure_rules
from finding import Finding

MAX_FUNCTION_LINES = 70
SHORT_FUNCTION_LINES = 35
SHORT_FUNCTION_SHARE = 0.9
MAX_FILE_LINES = 800
MAX_COLUMNS = 100


@dataclasses.dataclass
class Tree:
    sources: list
    # Every source that the build compiles, relative to the tree's root; None if unknown.
    compiled: set | None = None

    def cpp(self):
        return [source for source in self.sources if source.is_cpp]


def read_compiled(compile_commands, root):
    entries = json.loads(pathlib.Path(compile_commands).read_text())
    files = (pathlib.Path(entry["file"]) for entry in entries)
    return {str(file.relative_to(root)) for file in files if file.is_relative_to(root)}


def is_code(source):
    return (source.suffix in {".h", ".cc", ".proto", ".py", ".cmake", ".in"}
            or source.name in {"CMakeLists.txt", "Makefile"}
            or source.text.startswith("#!"))


# --- layers -------------------------------------------------------------------

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
LAYERS = {"base", "bench", "client", "index", "proto", "server", "tests"}
GENERATED = re.compile(r"\.pb\.h$|^(engine_(rows_)?list|lodgekv_commit)\.inc$")
TOP_OF_INDEX = r"index/[^/]+\.h$"
# It depends on nothing.
FOR_ALL_TESTS = "tests/support/allocation_counter.h"


# In the crash laboratory each folder may use those before it; nothing may use the last two.
LAB_FOLDERS = {"lab": "lab", "canaries": "lab|canaries", "explorer": "lab|canaries|explorer",
               "scenarios": "lab|canaries|explorer|scenarios",
               "schedule": "lab|canaries|explorer|schedule"}


# Each folder of the server may use itself and these; the files beside the folders, which start,
# stop and assemble, may use all. Tests and server/testing may use everything.
SERVER_FOLDERS = {"base": "", "tls": "base", "config": "base|tls", "front_door": "base",
                  "rpc": "base|config", "admin": "base|rpc", "metrics": "base|front_door|rpc|tls"}


def allowed_to_server(path):
    """What a file of server/ may include of server/, in words, and as a pattern."""
    folder = path.split("/")[1]
    if folder == "testing" or path.endswith("_test.cc"):
        return "server", "server/"
    if path.count("/") == 1:
        return "server but for its tests", "server/(?!testing/)"
    names = [folder, *filter(None, SERVER_FOLDERS.get(folder, "").split("|"))]
    return f"of server {', '.join(names)}", rf"server/({'|'.join(names)})/"


def allowed_includes(path):
    """(what the folder may include, in words, and as a pattern); None: everything is allowed."""
    parts = path.split("/")
    top = parts[0]
    if parts[:2] == ["tests", "crash"] and len(parts) == 4:
        seen = LAB_FOLDERS[parts[2]]
        words = f"of tests/crash {seen.replace('|', ', ')}"
        return words, rf"(?!tests/crash/)|tests/crash/({seen})/"
    if top == "base":
        return "base", r"base/"
    if top == "server":
        words, pattern = allowed_to_server(path)
        return f"base, index/*.h, proto, {words}", rf"base/|{TOP_OF_INDEX}|proto/|{pattern}"
    if top == "client":
        return "base, proto and client", r"base/|proto/|client/"
    if top != "index":
        return None
    if len(parts) == 2:
        return "index/*.h and index/pmem", rf"{TOP_OF_INDEX}|index/pmem/"
    folder = parts[1]
    if folder == "pmem":
        return "index/*.h and index/pmem", rf"{TOP_OF_INDEX}|index/pmem/"
    if folder == "node":
        return "index/*.h, index/pmem and index/node", rf"{TOP_OF_INDEX}|index/(pmem|node)/"
    if folder == "art":
        return ("index/*.h, index/pmem, index/node and index/art",
                rf"{TOP_OF_INDEX}|index/(pmem|node|art)/")
    return (f"index/*.h, index/pmem, index/node, index/art and index/{folder}",
            rf"{TOP_OF_INDEX}|index/(pmem|node|art|{folder})/")


def may_see_part_of_pmem(source, included):
    if source.path.startswith(("index/pmem/", "tests/")):
        return True
    if included.startswith("index/pmem/testing/"):
        return source.is_test or source.name.endswith("_test_util.h")
    return not included.startswith("index/pmem/internal/")


def include_direction(tree):
    for source in tree.cpp():
        allowed = allowed_includes(source.path)
        for match in INCLUDE.finditer(source.text):
            line = source.line_of(match.start(1) if match.group(1) else match.start(2))
            included = match.group(1) or match.group(2)
            if re.match(r"libpmem", included) and not source.path.startswith("index/pmem/"):
                yield Finding(source.path, line,
                              f"includes {included}: only index/pmem knows libpmem and libpmemobj")
            if match.group(2) or GENERATED.search(included):
                continue
            if source.is_test and included == FOR_ALL_TESTS:
                continue
            if not may_see_part_of_pmem(source, included):
                yield Finding(source.path, line, f"includes {included}: index/pmem/internal/ is "
                              "for index/pmem and tests/, index/pmem/testing/ for tests alone")
            if "/" not in included:
                yield Finding(source.path, line, f"includes \"{included}\": project headers are "
                              "included by their path from the root")
            elif allowed and included.split("/")[0] in LAYERS:
                words, pattern = allowed
                if not re.match(pattern, included):
                    yield Finding(source.path, line,
                                  f"includes {included}: this folder may include {words}")


# Accesses to the medium that only index/pmem may make.
MEDIUM_CALL = re.compile(
    r"\b(?:_mm_(?:clwb|clflush|clflushopt|sfence|stream_\w+)|__builtin_ia32_(?:clwb|clflush\w*)"
    r"|pmem_\w+|pmemobj_\w+|msync|fdatasync|sync_file_range)\s*\(|\b(?:clwb|clflush(?:opt)?)\b")
MEDIUM_ASSEMBLY = re.compile(r"\basm\b[^;]*\"[^\"]*\b(?:clwb|clflush\w*|sfence|movnt\w+)\b")


def medium_access(tree):
    for source in tree.cpp():
        if not source.path.startswith(("index/", "server/", "bench/")):
            continue
        if source.path.startswith("index/pmem/"):
            continue
        found = [*MEDIUM_CALL.finditer(source.code), *MEDIUM_ASSEMBLY.finditer(source.text)]
        for match in found:
            call = match.group().rstrip("( ")
            yield Finding(source.path, source.line_of(match.start()),
                          f"{call}: flushes and fences are made by index/pmem's Medium alone")


CLOCK = re.compile(r"\b(?:system_clock|clock_gettime|gettimeofday|absl::Now"
                   r"|time\s*\(\s*(?:nullptr|0)\s*\))")


def engines_read_no_clock(tree):
    for source in tree.cpp():
        if not source.path.startswith("index/") or source.is_test:
            continue
        for match in CLOCK.finditer(source.code):
            yield Finding(source.path, source.line_of(match.start()),
                          f"{match.group()}: the time of day is passed to an engine, never read")


# --- size ---------------------------------------------------------------------

def function_length(tree):
    functions = [(source, function) for source in tree.cpp() for function in source.functions]
    for source, function in functions:
        if function.lines > MAX_FUNCTION_LINES:
            yield Finding(source.path, function.line,
                          f"a function of {function.lines} lines, at most {MAX_FUNCTION_LINES}: "
                          f"{function.signature}")
    long = [pair for pair in functions if pair[1].lines > SHORT_FUNCTION_LINES]
    if functions and len(long) > (1 - SHORT_FUNCTION_SHARE) * len(functions):
        source, function = max(long, key=lambda pair: pair[1].lines)
        yield Finding(source.path, function.line,
                      f"{len(long)} of {len(functions)} functions have more than "
                      f"{SHORT_FUNCTION_LINES} lines, at most one in ten may; this is the longest")


def file_length(tree):
    for source in tree.sources:
        if is_code(source) and len(source.lines) > MAX_FILE_LINES:
            yield Finding(source.path, MAX_FILE_LINES + 1,
                          f"{len(source.lines)} lines, at most {MAX_FILE_LINES}")


def line_length(tree):
    for source in tree.sources:
        if not is_code(source):
            continue
        for number, line in enumerate(source.lines, 1):
            if len(line) > MAX_COLUMNS:
                yield Finding(source.path, number, f"{len(line)} columns, at most {MAX_COLUMNS}")


# --- files --------------------------------------------------------------------

def in_a_target(tree):
    if tree.compiled is None:
        return
    for source in tree.sources:
        if source.suffix == ".cc" and source.path not in tree.compiled:
            yield Finding(source.path, 1, "is in no CMake target")


SNAKE_CASE = re.compile(r"^[a-z0-9]+(_[a-z0-9]+)*\.(h|cc|py|proto)$")


def file_names(tree):
    for source in tree.sources:
        if source.suffix in {".h", ".cc", ".proto"} and not SNAKE_CASE.match(source.name):
            yield Finding(source.path, 1, "file names are snake_case")
        if source.suffix == ".h" and "#pragma once" not in source.text:
            yield Finding(source.path, 1, "a header without #pragma once")


# The words are put together here so that this file passes its own rules.
MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(?:" + "wor" + "k|far" + "m)/")


def no_machine_paths(tree):
    for source in tree.sources:
        for match in MACHINE_PATH.finditer(source.text):
            yield Finding(source.path, source.line_of(match.start()),
                          "a path of one machine: say it relative to the repository")


LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
QUOTED_PATH = re.compile(
    r"`((?:bench|client|cmake|config|docs|index|proto|scripts|server|tests)/[\w./-]*)`")


def documents_name_what_is_there(tree):
    there = {"."}
    for source in tree.sources:
        there.add(source.path)
        there.update(str(parent) for parent in pathlib.PurePosixPath(source.path).parents)
    for source in tree.sources:
        if source.suffix != ".md":
            continue
        folder = str(pathlib.PurePosixPath(source.path).parent)
        named = [(m, posixpath.normpath(posixpath.join(folder, m.group(1))))
                 for m in LINK.finditer(source.text)]
        named += [(m, m.group(1).rstrip("/")) for m in QUOTED_PATH.finditer(source.text)]
        for match, path in named:
            # A unit may be named without its suffix if its header and source are both meant.
            if path not in there and path + ".h" not in there:
                yield Finding(source.path, source.line_of(match.start(1)),
                              f"{match.group(1)}: there is no such file")


# --- nothing unfinished -------------------------------------------------------

UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
SKIPPED = re.compile(r"\bGTEST_SKIP\s*\(\s*\)(?!\s*<<)")
DISABLED = re.compile(r"\bDISABLED" + r"_\w+")


def nothing_unfinished(tree):
    for source in tree.sources:
        if not is_code(source):
            continue
        for match in UNFINISHED.finditer(source.text):
            yield Finding(source.path, source.line_of(match.start()),
                          f"{match.group()}: finish it, or write an issue")
        if not source.is_cpp:
            continue
        for match in DISABLED.finditer(source.code):
            yield Finding(source.path, source.line_of(match.start()),
                          f"{match.group()}: a test that is switched off")
        for match in SKIPPED.finditer(source.code):
            yield Finding(source.path, source.line_of(match.start()),
                          "GTEST_SKIP() without a reason: GTEST_SKIP() << \"why\"")


# A whole statement: at most a type, `return` or the like before the call or assignment.
DEAD_CODE = re.compile(
    r"^(?:(?:(?:const |static )?[\w:<>*&]+ )?[\w:.\->\[\]*]+(?:\([^;]*\)| [-+|&*]?= [^;=]*);"
    r"|(?:if|for|while|switch) \(.*\) \{|\} else.*\{|[{}])$")


def no_dead_code(tree):
    for source in tree.cpp():
        for number, text in source.comments:
            # A header may show an indented example.
            is_example = source.suffix == ".h" and text.startswith("  ")
            text = text.strip()
            if DEAD_CODE.match(text) and not is_example:
                yield Finding(source.path, number, f"looks like code in a comment: {text}")
        for match in re.finditer(r"^\s*#\s*if\s+0\b", source.text, re.MULTILINE):
            yield Finding(source.path, source.line_of(match.end()), "#if 0: remove it")


# --- crash points -------------------------------------------------------------

CRASH_POINT = re.compile(r"LODGEKV_CRASH_POINT\s*\(([^;]*?),\s*\"([^\"]*)\"\s*\)\s*;")
CRASH_POINT_USE = re.compile(r"(?<!define )\bLODGEKV_CRASH_POINT\s*\(")
CRASH_POINT_NAME = re.compile(r"^([a-z0-9]+)\.[a-z0-9]+(?:_[a-z0-9]+)*\.[1-9][0-9]*$")


def crash_points(tree):
    places = collections.defaultdict(list)
    for source in tree.cpp():
        if source.is_test:
            continue
        named = list(CRASH_POINT.finditer(source.text))
        uses = [m for m in CRASH_POINT_USE.finditer(source.code)]
        if len(uses) != len(named):
            yield Finding(source.path, source.line_of(uses[0].start()) if uses else 1,
                          "the name of a crash point is written out as one string")
        for match in named:
            line, name = source.line_of(match.start()), match.group(2)
            places[name].append((source.path, line))
            form = CRASH_POINT_NAME.match(name)
            folder = (source.path.split("/") + [""])[1]
            if not form:
                yield Finding(source.path, line, f"crash point \"{name}\": its form is "
                              "engine.protocol.N, as in \"lodgetree.split.2\"")
            elif form.group(1) != folder:
                yield Finding(source.path, line, f"crash point \"{name}\": its first word is that "
                              f"of the folder, {folder}")
    for name, found in places.items():
        for path, line in found[1:]:
            yield Finding(path, line, f"crash point \"{name}\" is already at "
                          f"{found[0][0]}:{found[0][1]}")


RULES = {
    "include_direction": include_direction,
    "medium_access": medium_access,
    "engines_read_no_clock": engines_read_no_clock,
    "function_length": function_length,
    "file_length": file_length,
    "line_length": line_length,
    "in_a_target": in_a_target,
    "file_names": file_names,
    "no_machine_paths": no_machine_paths,
    "documents_name_what_is_there": documents_name_what_is_there,
    "nothing_unfinished": nothing_unfinished,
    "no_dead_code": no_dead_code,
    "crash_points": crash_points,
} | structure_rules.RULES

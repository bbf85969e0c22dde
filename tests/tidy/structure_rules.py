"""The rules of structure: how large a class may be, who may call whom in an engine's folder, and
that documents and code speak of the same things."""

import collections
import dataclasses
import pathlib
import posixpath
import re

import source_file
from finding import Finding

MAX_METHODS = 45

# --- classes ------------------------------------------------------------------

CLASS = re.compile(
    r"^(?:template\s*<[^{;]*>\s*)?(?:requires\b[^{;]*?\s)?"
    r"(?:class|struct)\s+(?:alignas\s*\([^)]*\)\s*|\[\[[^\]]*\]\]\s*)*"
    r"(?P<name>[\w:]+)(?:<[^{;]*>)?\s*(?:final\s*)?(?::[^:].*)?$", re.DOTALL)
NO_METHOD = re.compile(r"^(?:using|typedef|friend|static_assert|enum|class|struct|union)\b")
TEMPLATE_HEAD = re.compile(r"^template\s*<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>\s*")
BRACKETS = re.compile(r"<[^<>()=;]*>|\[\[[^\]]*\]\]|alignas\s*\([^)]*\)")
METHOD = re.compile(r"(?P<name>operator\s*[^\s(]+|~?\b\w+)\s*\(")


@dataclasses.dataclass(frozen=True)
class Class:
    name: str
    path: str
    line: int
    methods: tuple  # names, one for each declaration


def members_of(code, begin):
    """The members of a class whose body begins there: each as one statement, without what is in its
    braces."""
    depth, text = 0, []
    for position in range(begin, len(code)):
        letter = code[position]
        if letter == "{":
            depth += 1
        elif letter == "}":
            depth -= 1
            if depth < 0:
                return
            if depth == 0 and not re.match(r"\s*[;,={(.]", code[position + 1:position + 40]):
                yield "".join(text)
                text = []
        elif depth == 0 and letter == ";":
            yield "".join(text)
            text = []
        elif depth == 0:
            text.append(letter)


def method_name(member, class_name):
    """Of a declaration of a method that does something: no constructor or destructor, nothing that
    is defaulted or deleted, and no accessor, whose name is in lower case."""
    member = source_file.ACCESS.sub(" ", member).strip()
    member = TEMPLATE_HEAD.sub("", member).strip()
    if not member or NO_METHOD.match(member) or re.search(r"=\s*(?:default|delete)\s*$", member):
        return None
    while BRACKETS.search(member):
        member = BRACKETS.sub(" ", member)
    found = METHOD.search(re.split(r"(?<!operator)(?<![=!<>])=(?!=)", member)[0])
    if not found or not re.search(r"[\w&*>]\s+$|[&*]$", member[:found.start()]):
        return None
    name = found.group("name")
    return name if re.match(r"[A-Z]|operator", name) and name != class_name else None


def classes_of(source):
    code = source_file.DIRECTIVE.sub(lambda m: source_file.blank(m.group()), source.code)
    for brace in re.finditer(r"\{", code):
        head_begin = max(code.rfind(mark, 0, brace.start()) for mark in ";{}") + 1
        head = source_file.ACCESS.sub(" ", code[head_begin:brace.start()]).strip()
        found = CLASS.match(head)
        if not found:
            continue
        own = found.group("name").split("::")[-1]
        names = (method_name(member, own) for member in members_of(code, brace.end()))
        yield Class(found.group("name"), source.path, source.line_of(brace.start()),
                    tuple(name for name in names if name is not None))


def class_size(tree):
    for source in tree.cpp():
        for found in classes_of(source):
            if len(found.methods) > MAX_METHODS:
                yield Finding(found.path, found.line,
                              f"class {found.name} has {len(found.methods)} methods, at most "
                              f"{MAX_METHODS}: give a part of it a class of its own")


# --- circles ------------------------------------------------------------------

DEFINITION = re.compile(r"\b(?:\w+(?:<[\w:, ]+>)?::)+(~?\w+)\s*\(")
CALL = re.compile(r"(?<![\w:~])(?:\w+(?:\.|->))?(\w+)\s*(?:<[\w:, ]*>)?\(")


def head_and_body(source, function):
    """The text of a function up to its brace, and from there on."""
    begin = source.line_starts[function.line - 1]
    last = function.line - 1 + function.lines
    end = source.line_starts[last] if last < len(source.line_starts) else len(source.code)
    text = source.code[begin:end]
    brace = text.find("{")
    return text[:brace], text[brace:]


def engine_of(source):
    parts = source.path.split("/")
    named = len(parts) == 3 and parts[0] == "index" and parts[1] not in ("pmem", "node", "art")
    return parts[1] if named and not source.is_test else None


def definitions(sources):
    """name -> the units that define a method of that name outside its class."""
    where = collections.defaultdict(set)
    for source in sources:
        for function in source.functions:
            found = DEFINITION.search(head_and_body(source, function)[0])
            if found:
                where[found.group(1)].add(pathlib.PurePosixPath(source.path).stem)
    return where


def calls_between(sources):
    """unit -> {unit that it calls: name of a call}; by names that one unit alone defines."""
    where = definitions(sources)
    calls = collections.defaultdict(dict)
    for source in sources:
        unit = pathlib.PurePosixPath(source.path).stem
        for function in source.functions:
            for call in CALL.finditer(head_and_body(source, function)[1]):
                units = where.get(call.group(1), set())
                if len(units) == 1 and unit not in units:
                    calls[unit].setdefault(next(iter(units)), call.group(1))
    return calls


def find_circle(calls):
    """The units of some circle, in its order; an empty list when there is none."""
    done = set()

    def walk(unit, way):
        if unit in way:
            return way[way.index(unit):]
        if unit in done:
            return []
        for called in sorted(calls.get(unit, {})):
            circle = walk(called, way + [unit])
            if circle:
                return circle
        done.add(unit)
        return []

    for unit in sorted(calls):
        circle = walk(unit, [])
        if circle:
            return circle
    return []


def no_circles(tree):
    engines = collections.defaultdict(list)
    for source in tree.cpp():
        if engine_of(source):
            engines[engine_of(source)].append(source)
    for engine, sources in sorted(engines.items()):
        calls = calls_between(sources)
        circle = find_circle(calls)
        if not circle:
            continue
        steps = zip(circle, circle[1:] + circle[:1])
        words = ", ".join(f"{one} calls {other}'s {calls[one][other]}" for one, other in steps)
        yield Finding(f"index/{engine}/{circle[0]}.cc", 1, f"a circle of files: {words}")


INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
# A header and its source are one unit there. Elsewhere a class may have private parts that include
# its header, and that its source includes (as index/pmem/pool.h does): only headers make a circle.
FOLDERS_OF_UNITS = ("base/", "bench/", "client/", "server/")
FOLDERS_OF_HEADERS = ("index/", "tests/")


def unit_of(path):
    return str(pathlib.PurePosixPath(path).with_suffix(""))


def units_of(tree):
    """unit -> {unit that it includes: None}"""
    units = collections.defaultdict(dict)
    for source in tree.cpp():
        whole = source.path.startswith(FOLDERS_OF_UNITS) and not source.is_test
        if whole or (source.path.startswith(FOLDERS_OF_HEADERS) and source.path.endswith(".h")):
            unit = unit_of(source.path)
            for included in INCLUDE.findall(source.text):
                if unit_of(included) != unit:
                    units[unit][unit_of(included)] = None
    return units


def no_include_circles(tree):
    circle = find_circle(units_of(tree))
    if circle:
        words = ", which includes ".join(circle[1:] + circle[:1])
        yield Finding(circle[0], 1, f"a circle of includes: it includes {words}")


# --- verbs --------------------------------------------------------------------

FENCE = re.compile(r"\b(?:Fence|Persist)\s*\(")
FUNCTION_NAME = re.compile(r"(~?\w+)\s*\(")


def flush_makes_no_fence(tree):
    for source in tree.cpp():
        if not source.path.startswith("index/") or source.is_test:
            continue
        for function in source.functions:
            head, body = head_and_body(source, function)
            name = FUNCTION_NAME.search(head)
            fence = FENCE.search(body)
            if name and fence and re.search(r"Flush(?!Mode)", name.group(1)):
                yield Finding(source.path, function.line, f"{name.group(1)} makes a fence: Flush "
                              "writes lines back and waits for nothing")


# --- tests --------------------------------------------------------------------

SUITE = re.compile(r"^TEST(?:_F|_P)?\s*\(\s*(\w+)", re.MULTILINE)
FOLDERS_WITH_NAMED_SUITES = ("base/", "bench/", "client/", "index/", "server/", "tests/")


def suites_are_named_alike(tree):
    for source in tree.cpp():
        if not source.path.startswith(FOLDERS_WITH_NAMED_SUITES):
            continue
        for match in SUITE.finditer(source.code):
            if not match.group(1).endswith("Test"):
                yield Finding(source.path, source.line_of(match.start()),
                              f"suite {match.group(1)}: the name of a suite ends with Test")


# --- crash tables -------------------------------------------------------------

POINT = re.compile(r"LODGEKV_CRASH_POINT\s*\([^;]*?\"(\w+\.\w+)\.(\d+)\"")
BLOCK_BEGIN = re.compile(r"^(?:\*\*|#)", re.MULTILINE)
PROTOCOL = re.compile(r"\(`(\w+\.\w+)`")
ROW = re.compile(r"^\| *(\d+) *\|", re.MULTILINE)


def protocols_of(document):
    """protocol -> (line, numbers of its rows)."""
    begins = [match.start() for match in BLOCK_BEGIN.finditer(document.text)]
    tables = {}
    for begin, end in zip(begins, begins[1:] + [len(document.text)]):
        block = document.text[begin:end]
        for match in PROTOCOL.finditer(block):
            rows = [int(row) for row in ROW.findall(block[match.start():])]
            tables[match.group(1)] = (document.line_of(begin + match.start()), rows)
    return tables


def points_of(sources):
    """(README of the point's folder, protocol) -> number -> (path, line)."""
    points = collections.defaultdict(dict)
    for source in sources:
        if source.is_test or not source.path.startswith("index/"):
            continue
        readme = "/".join(source.path.split("/")[:2] + ["README.md"])
        for match in POINT.finditer(source.text):
            place = (source.path, source.line_of(match.start()))
            points[readme, match.group(1)][int(match.group(2))] = place
    return points


def crash_tables(tree):
    points = points_of(tree.cpp())
    tables = {(source.path, protocol): table for source in tree.sources
              if re.match(r"index/\w+/README\.md$", source.path)
              for protocol, table in protocols_of(source).items()}
    for path, protocol in sorted(set(points) | set(tables)):
        numbers = points.get((path, protocol), {})
        line, rows = tables.get((path, protocol), (1, []))
        for number in sorted(set(numbers) - set(rows)):
            yield Finding(*numbers[number], f"crash point \"{protocol}.{number}\" is no row of a "
                          f"crash table of {protocol} in {path}")
        for row in sorted(set(rows) - set(numbers)):
            yield Finding(path, line, f"row {row} of {protocol} is no crash point in the code")
        if rows != sorted(rows):
            yield Finding(path, line, f"the rows of {protocol} are numbered {rows}: number steps "
                          "in the order of their execution")


# --- documents and names ------------------------------------------------------

SPEAKING = re.compile(r"^(?:README|ARCHITECTURE|index/\w+/README)\.md$")
FILE = r"(?:\[[\w./]+\.(?:h|cc)\](?:\([^)]*\))?|`[\w./]+\.(?:h|cc)`)"
NAMES_BESIDE_FILES = re.compile(
    r"(?P<names>`[\w:]+`(?:(?:,| and|, and)\s+`[\w:]+`)*)\s+(?:in\s+|of\s+)?\(?"
    rf"(?P<files>{FILE}(?:(?:,| and|, and)\s+{FILE})*)")


def documents_name_what_files_have(tree):
    by_name = collections.defaultdict(list)
    for source in tree.cpp():
        by_name[source.name].append(source)
    for document in tree.sources:
        if not SPEAKING.match(document.path):
            continue
        for match in NAMES_BESIDE_FILES.finditer(document.text):
            files = re.findall(r"[\[`]([\w./]+)\.(?:h|cc)[\]`]", match.group("files"))
            texts = [source.code for file in files for suffix in (".h", ".cc")
                     for source in by_name[file.split("/")[-1] + suffix]]
            for name in re.findall(r"`([\w:]*[A-Z][\w:]*)`", match.group("names")):
                word = name.split("::")[-1]
                if texts and not any(re.search(rf"\b{word}\b", text) for text in texts):
                    yield Finding(document.path, document.line_of(match.start()),
                                  f"`{name}` is not in {', '.join(files)}")


DECISION = re.compile(r"^docs/decisions/(\d{4})-[\w.-]+\.md$")
DECISION_SECTIONS = ["Context", "Decision", "Consequences"]


def decisions_have_one_form(tree):
    index = next((source for source in tree.sources
                  if source.path == "docs/decisions/README.md"), None)
    for source in tree.sources:
        page = DECISION.match(source.path)
        if not page:
            continue
        if not re.match(rf"# {page.group(1)}\. \S", source.text):
            yield Finding(source.path, 1, f'the first line is "# {page.group(1)}. TITLE"')
        sections = re.findall(r"^## (.+)$", source.text, re.MULTILINE)
        if [name for name in sections if name in DECISION_SECTIONS] != DECISION_SECTIONS:
            yield Finding(source.path, 1, f"its sections are {sections}; a decision has Context, "
                          "Decision and Consequences")
        if index is None or f"({source.name})" not in index.text:
            yield Finding(source.path, 1, "is not listed in docs/decisions/README.md")


RULES = {
    "class_size": class_size,
    "no_circles": no_circles,
    "no_include_circles": no_include_circles,
    "flush_makes_no_fence": flush_makes_no_fence,
    "suites_are_named_alike": suites_are_named_alike,
    "crash_tables": crash_tables,
    "documents_name_what_files_have": documents_name_what_files_have,
    "decisions_have_one_form": decisions_have_one_form,
}

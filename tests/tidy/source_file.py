"""The files of a source tree as the style rules see them; C++ functions found by their braces."""

import bisect
import dataclasses
import functools
import os
import pathlib
import re
import subprocess

SKIPPED_FOLDERS = {"build", "data", ".git", ".venv", "__pycache__"}
CPP_SUFFIXES = {".h", ".cc"}

# Comments, raw strings, strings and characters, in the order in which they are tried. A quote
# between digits separates them and opens nothing.
TOKEN = re.compile(
    r'//(?:\\\n|[^\n])*|/\*.*?\*/'
    r'|R"(?P<delimiter>[^()\\ ]{0,16})\(.*?\)(?P=delimiter)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'",
    re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Function:
    line: int  # of the first line of its signature
    lines: int
    signature: str


def blank(text):
    """Spaces in place of everything but line ends, so that positions stay."""
    return re.sub(r"[^\n]", " ", text)


class SourceFile:
    """One text file: its path from the root of the tree, its text and its lines."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.name = pathlib.PurePosixPath(path).name
        self.suffix = pathlib.PurePosixPath(path).suffix

    @functools.cached_property
    def lines(self):
        return self.text.splitlines()

    @property
    def is_cpp(self):
        return self.suffix in CPP_SUFFIXES

    @property
    def is_test(self):
        return self.path.startswith("tests/") or self.name.endswith("_test.cc")

    @functools.cached_property
    def code(self):
        """C++ without comments; strings and characters blank inside their quotes."""
        def replace(match):
            found = match.group()
            if found[0] == "/":
                return blank(found)
            quote = found[-1]
            return quote + blank(found[1:-1]) + quote
        return TOKEN.sub(replace, self.text)

    @functools.cached_property
    def comments(self):
        """(line, text) of each comment that begins with two slashes and has its line to itself; of
        the space before the text the first is left out."""
        return [(number, line.strip()[2:].removeprefix(" "))
                for number, line in enumerate(self.lines, 1)
                if line.strip().startswith("//")]

    @functools.cached_property
    def line_starts(self):
        return [0] + [m.end() for m in re.finditer("\n", self.text)]

    def line_of(self, position):
        return bisect.bisect_right(self.line_starts, position)

    @functools.cached_property
    def functions(self):
        return list(find_functions(self))


DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
SCOPE = re.compile(
    r"^(?:template\s*<.*>\s*|export\s+|inline\s+|typedef\s+|static\s+|extern\s*\"\s*\"\s*)*"
    r"(?:(?:namespace|class|struct|union|enum)\b|$)", re.DOTALL)
ACCESS = re.compile(r"\b(?:public|private|protected)\s*:(?!:)")


def block_kind(head, opened_after_space):
    """What a brace outside a function opens, by the text that stands before it in its statement.

    clang-format puts a space before the brace of a block and none before that of an initializer.
    """
    if head.endswith("=") or head.endswith("(") or head.endswith(",") or not opened_after_space:
        return "initializer"
    if SCOPE.match(head) and not re.search(r"\)\s*(?:const|noexcept|override|final)?\s*$", head):
        return "scope"
    return "function" if ")" in head else "initializer"


def find_functions(source):
    """Functions with a body, lambdas and local classes counted as part of what encloses them."""
    code = DIRECTIVE.sub(lambda m: blank(m.group()), source.code)
    stack = []  # (kind, position of the statement's first character)
    statement = 0
    for match in re.finditer(r"[{};]", code):
        position = match.start()
        inside_function = any(kind == "function" for kind, _ in stack)
        if match.group() == "{":
            head = ACCESS.sub(lambda m: blank(m.group()), code[statement:position])
            first = statement + len(head) - len(head.lstrip())
            kind = "inner"
            if not inside_function and not (stack and stack[-1][0] == "initializer"):
                kind = block_kind(head.strip(), head[-1:].isspace())
            stack.append((kind, first))
            if kind in ("scope", "function"):
                statement = position + 1
        elif match.group() == "}":
            kind, first = stack.pop() if stack else ("inner", position)
            if kind == "function":
                begin, end = source.line_of(first), source.line_of(position)
                yield Function(begin, end - begin + 1, source.lines[begin - 1].strip())
            if kind in ("scope", "function"):
                statement = position + 1
        elif not inside_function and not (stack and stack[-1][0] == "initializer"):
            statement = position + 1


def list_paths(root):
    """What git tracks or would track; every file but build outputs where there is no repository."""
    if (root / ".git").exists():
        listing = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "-z", "--cached",
             "--others", "--exclude-standard"],
            check=True, capture_output=True, text=True).stdout
        return sorted(set(path for path in listing.split("\0") if path))
    paths = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        paths += [str((pathlib.Path(folder) / name).relative_to(root)) for name in files]
    return sorted(paths)


def read_tree(root):
    """Every file of the tree. One that is no text is there, and empty."""
    sources = []
    for path in list_paths(root):
        full = root / path
        if not full.is_file():
            continue
        data = full.read_bytes()
        text = "" if b"\0" in data else data.decode("utf-8", errors="replace")
        sources.append(SourceFile(path, text))
    return sources

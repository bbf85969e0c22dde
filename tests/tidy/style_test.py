#!/usr/bin/env python3
"""Checks the style rules (rules.py) over a source tree; lists findings as path:line: message.

    style_test.py ROOT [--compile-commands FILE]
"""

import argparse
import pathlib
import sys

import rules
import source_file


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--compile-commands", help="compile_commands.json of a build of the tree")
    arguments = parser.parse_args()

    root = arguments.root.resolve()
    compiled = None
    if arguments.compile_commands:
        compiled = rules.read_compiled(arguments.compile_commands, root)
    tree = rules.Tree(source_file.read_tree(root), compiled)
    if not tree.sources:
        sys.exit(f"style_test: no file under {root}")
    count = 0
    for name, rule in rules.RULES.items():
        for finding in rule(tree):
            print(f"{finding} [{name}]")
            count += 1
    functions = sum(len(source.functions) for source in tree.cpp())
    print(f"{len(tree.sources)} files, {functions} C++ functions, {count} findings")
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()

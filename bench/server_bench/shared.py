"""Modules of the system tests that the benchmarks use, too."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/system"))

import metrics_page  # noqa: E402,F401
import ports  # noqa: E402,F401
import records  # noqa: E402,F401

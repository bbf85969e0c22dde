#!/usr/bin/env python3
"""figures_test.py ENGINE_BENCH: what a table of figures is made of, on small examples; and a round
of every run with few keys, from which every figure of the build's engines must get a value."""

import pathlib
import sys
import tempfile
import unittest

import figures
import runs

ENGINE_BENCH = ""


def row(**fields):
    return {"run": "main", "round": 1, "engine": "tree", "key_format": "fixed64",
            "workload": "read", "threads": 1, "distribution": "uniform",
            "ratio_to_btree_map": 0.5, **fields}


TARGET = {"figure": "time of a read", "at_most": {"tree": 0.6},
          "of": {"run": "main", "workload": "read", "field": "ratio_to_btree_map"}}


class FiguresTest(unittest.TestCase):
    def figure(self, rows, target=TARGET):
        made = list(figures.figures_of(rows, {"engines": {"tree": "Tree"}, "rows": [target]},
                                       ["tree"]))
        self.assertEqual(len(made), 1)
        return made[0]

    def test_median_of_rounds_beside_the_goal(self):
        rows = [row(round=turn, ratio_to_btree_map=value)
                for turn, value in ((1, 0.7), (2, 0.5), (3, 0.58))]
        figure = self.figure(rows)
        self.assertEqual((figure.measured(), figure.goal(), figure.verdict()),
                         ("0.58 (0.50 to 0.70)", "at most 0.60", "met"))
        self.assertEqual(self.figure([row(ratio_to_btree_map=0.61)]).verdict(), "missed")

    def test_a_miss_does_not_look_like_its_goal(self):
        for value, text in ((0.6012, "0.601"), (0.6004, "0.6004"), (0.6, "0.60"), (0.5999, "0.60")):
            self.assertEqual(self.figure([row(ratio_to_btree_map=value)]).measured(), text)

    def test_only_the_row_that_is_meant(self):
        others = [row(run="groups"), row(threads=2), row(group=16), row(engine_options="a=1"),
                  row(distribution="skewed"), row(key_format="bytes"), row(engine="other"),
                  row(workload="insert")]
        self.assertEqual(self.figure(others).values, ())
        self.assertEqual(self.figure([*others, row()]).values, (0.5,))

    def test_over_another_row_of_the_same_round(self):
        target = {**TARGET, "over": {**TARGET["of"], "engine": "btree_map"}, "at_least": 3}
        del target["at_most"]
        rows = [row(round=1, ratio_to_btree_map=6), row(round=2, ratio_to_btree_map=8),
                row(round=1, engine="btree_map", ratio_to_btree_map=2)]
        figure = self.figure(rows, target)
        self.assertEqual((figure.values, figure.verdict()), ((3.0,), "met"))

    def test_weighted_sums(self):
        target = {**TARGET, "of": {"run": "main", "workload": "read",
                                   "sum": {"counters.one": 1, "counters.two": 2},
                                   "per": {"counters.one": 1, "counters.two": 1}}}
        self.assertEqual(self.figure([row(counters={"one": 3, "two": 1})], target).values, (1.25,))
        self.assertEqual(self.figure([row(counters={"one": 3})], target).values, ())

    def test_engines_that_are_not_built_are_left_out(self):
        targets = {"engines": {"tree": "Tree", "later": "Later"},
                   "rows": [TARGET, {**TARGET, "at_most": {"later": 1}}]}
        self.assertEqual([figure.engine for figure in
                          figures.figures_of([row()], targets, ["tree"])], ["tree"])

    def test_table(self):
        both = [self.figure([row()]), self.figure([])]
        lines = figures.table(both, {"tree": "Tree"}).splitlines()
        self.assertIn("## Tree", lines)
        self.assertIn("| time of a read | 0.50 | at most 0.60 | met |", lines)
        self.assertIn("| time of a read | - | at most 0.60 | not measured |", lines)


    def test_pictures_show_what_was_measured(self):
        try:
            import drawing
        except ImportError:
            self.skipTest("matplotlib, of scripts/install_packages --figures, is not there for "
                          "this Python")
        targets = {"engines": {"tree": "Tree"}, "rows": [TARGET]}
        rows = [row(ratio_to_btree_map=0.4321)]
        drawn = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as folder:
                names = drawing.draw_all(rows, targets, ["tree"], pathlib.Path(folder))
                drawn.append([pathlib.Path(folder, name).read_text() for name in names])
        self.assertEqual(len(drawn[0]), 3)
        self.assertEqual(drawn[0], drawn[1], "a picture is another each time")
        self.assertIn("0.43", drawn[0][0])


class RunsTest(unittest.TestCase):
    def test_every_figure_of_the_build_gets_a_value(self):
        targets = figures.read_targets()
        built = runs.known_engines(ENGINE_BENCH)
        engines = [engine for engine in targets["engines"] if engine in built]
        rows = []
        for run in runs.runs_of(20_000, 3_000):
            rows += runs.measure(run, ENGINE_BENCH, engines, 1)[0]
        for figure in figures.figures_of(rows, targets, engines):
            with self.subTest(engine=figure.engine, figure=figure.text):
                self.assertEqual(len(figure.values), 1)


if __name__ == "__main__":
    ENGINE_BENCH = sys.argv.pop(1)
    unittest.main(verbosity=2)

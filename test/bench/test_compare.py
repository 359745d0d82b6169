# SPDX-License-Identifier: MIT
"""Tests of bench/compare.py: python3 -m unittest discover test/bench"""
import contextlib
import io
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
sys.dont_write_bytecode = True

import compare  # noqa: E402


def row(case, us, read_us=None, chain_us=None):
    return {"case": case, "us": us, "read_us": read_us, "chain_us": chain_us}


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, content):
        path = self.folder / name
        if isinstance(content, list):
            content = {"device": f"device of {name}", "ingot": "1.2.3", "build": {"archs": "90a"}, "rows": content}
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    def run_on(self, a, b, *options):
        out, err = io.StringIO(), io.StringIO()
        status = compare.main([self.file("a", a), self.file("b", b), *options], out, err)
        return status, out.getvalue(), err.getvalue()

    def line(self, text, case):
        lines = [line for line in text.splitlines() if line.startswith(case + " ")]
        self.assertEqual(len(lines), 1, text)
        return lines[0][len(case):].split()

    def test_rows_and_mean(self):
        status, out, err = self.run_on([row("mmvq x", 10, 8), row("add", 2)], [row("add", 1), row("mmvq x", 10.4, 6.5)])
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(self.line(out, "mmvq x"), ["10.00", "10.40", "1.040", "1.25", "1.60"])
        self.assertEqual(self.line(out, "add"), ["2.00", "1.00", "0.500", "-", "-"])
        self.assertIn(f"2 cases, geometric mean of B/A {math.sqrt(1.04 * 0.5):.3f}, 0 slower", out)
        self.assertIn("device of a, ingot 1.2.3 for \"90a\"", out)
        self.assertNotIn("only in", out)

    def test_one_slower_row_is_found_among_faster_ones(self):
        rows_a = [row(f"case {i}", 10) for i in range(20)]
        rows_b = [row(f"case {i}", 10.51 if i == 13 else 5) for i in range(20)]
        status, out, _ = self.run_on(rows_a, rows_b)
        self.assertEqual(status, 1)
        self.assertEqual([line.split()[1] for line in out.splitlines() if line.endswith("  slower")], ["13"])
        self.assertIn(", 1 slower by more than 5 %", out)

    def test_threshold(self):
        a, b = [row("x", 10)], [row("x", 11)]
        self.assertEqual(self.run_on(a, b)[0], 1)
        self.assertEqual(self.run_on(a, b, "--threshold", "0.11")[0], 0)
        self.assertEqual(self.run_on(a, b, "--threshold", "0.09")[0], 1)
        self.assertEqual(self.run_on(a, [row("x", 10)], "--threshold", "0")[0], 0)
        self.assertEqual(self.run_on(b, a, "--threshold", "0")[0], 0)

    def test_rows_of_one_file_are_named(self):
        status, out, _ = self.run_on([row("x", 1), row("old", 1)], [row("x", 1), row("new", 1), row("newer", 1)])
        self.assertEqual(status, 0)
        self.assertIn("only in A:\n  old\n", out)
        self.assertIn("only in B:\n  new\n  newer\n", out)
        self.assertIn("1 cases", out)

    def test_chain(self):
        a = [row("x", 1, 4, 8), row("dequant", 1, 4)]
        status, out, _ = self.run_on(a, [row("x", 1, 4, 10), row("dequant", 1, 4)], "--field", "chain_us")
        self.assertEqual(status, 1)
        self.assertEqual(self.line(out, "x")[:5], ["8.00", "10.00", "1.250", "2.00", "2.50"])
        self.assertNotIn("dequant", out)

    def test_malformed_files(self):
        good = [row("x", 1, 1)]
        bad = {
            "no JSON": "{\"rows\": [{\"case\": \"x\", \"us\": 1}",
            "empty": "",
            "a list": "[]",
            "no rows": "{}",
            "rows of another kind": {"rows": {"x": 1}},
            "a row of another kind": {"rows": [1]},
            "no case": [{"us": 1}],
            "case of another kind": [{"case": 3, "us": 1}],
            "no us": [{"case": "x"}],
            "null us": [row("x", None)],
            "zero": [row("x", 0)],
            "negative": [row("x", -1)],
            "text": [row("x", "1")],
            "true": [row("x", True)],
            "NaN": "{\"rows\": [{\"case\": \"x\", \"us\": NaN}]}",
            "infinite": "{\"rows\": [{\"case\": \"x\", \"us\": 1e999}]}",
            "400 digits": "{\"rows\": [{\"case\": \"x\", \"us\": " + "9" * 400 + "}]}",
            "beyond any bench": [row("x", 1e308)],
            "next to nothing": [row("x", 1e-308)],
            "half a character": "{\"rows\": [{\"case\": \"\\ud800\", \"us\": 1}]}",
            "bad read": [row("x", 1, 0)],
            "twice": [row("x", 1), row("x", 1)],
            "nothing in common": [row("y", 1)],
            "no row": [],
        }
        for name, content in bad.items():
            for pair in ((good, content), (content, good)):
                with self.subTest(name):
                    status, out, err = self.run_on(*pair)
                    self.assertEqual((status, out), (2, ""))
                    self.assertRegex(err, r"^compare: .*/[ab]\b")

    def test_missing_file_and_bad_arguments(self):
        good = self.file("a", [row("x", 1)])
        err = io.StringIO()
        self.assertEqual(compare.main([good, str(self.folder / "none")], io.StringIO(), err), 2)
        self.assertIn("none", err.getvalue())
        for arguments in ([good], [good, good, good], [good, good, "--threshold", "-1"], [good, good, "--threshold", "nan"],
                          [good, good, "--threshold", "x"], [good, good, "--field", "read_us"]):
            with self.subTest(arguments), contextlib.redirect_stderr(io.StringIO()):
                with self.assertRaises(SystemExit) as end:
                    compare.main(arguments, io.StringIO(), io.StringIO())
                self.assertEqual(end.exception.code, 2)

    def test_exit_status_of_the_program(self):
        a, b = self.file("a", [row("x", 1)]), self.file("b", [row("x", 2)])
        for arguments, status in (([a, a], 0), ([a, b], 1), ([a, str(self.folder)], 2)):
            done = subprocess.run([sys.executable, str(ROOT / "bench/compare.py"), *arguments], capture_output=True)
            self.assertEqual(done.returncode, status, done.stderr)
        with open("/dev/full", "w") as full:
            done = subprocess.run([sys.executable, str(ROOT / "bench/compare.py"), a, a], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"could not be written", done.stderr)


if __name__ == "__main__":
    unittest.main()

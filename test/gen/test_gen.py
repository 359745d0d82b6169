# SPDX-License-Identifier: MIT
"""Tests of the generator: python3 -m unittest discover test/gen

Each test works on a copy of templates/ and generated/ in a folder of its own, so nothing it does reaches the tree.
"""
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "gen"))
sys.dont_write_bytecode = True

import books    # noqa: E402
import gen      # noqa: E402
import quants   # noqa: E402
import rows     # noqa: E402

WHERE = re.compile(r"^(templates|generated|gen)/[\w./]+(:\d+)?: ")


class Tree(unittest.TestCase):
    """A tree with a few rows, rendered and up to date."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        shutil.copytree(ROOT / "templates", self.root / "templates")
        self.rows = [rows.dequant("q4_0", "f32"), rows.dequant("q6_K", "bf16"), rows.mmvq("q8_0", 2, 2, 2)]
        gen.write(self.root, self.render())

    def render(self):
        return gen.render_all(self.root, self.rows)

    def check(self):
        return gen.check(self.root, self.render())

    def edit(self, path, old, new):
        file = self.root / path
        text = file.read_text()
        self.assertIn(old, text)
        file.write_text(text.replace(old, new, 1))
        return text[:text.index(old)].count("\n") + 1

    def assert_error(self, *parts):
        with self.assertRaises(gen.GenError) as caught:
            self.render()
        message = str(caught.exception)
        self.assertRegex(message, WHERE)
        for part in parts:
            self.assertIn(part, message)


class Check(Tree):
    def test_fresh_tree_is_up_to_date(self):
        self.assertEqual(self.check(), [])

    def test_changed_row(self):
        self.rows[0] = rows.dequant("q4_0", "f32", threads=128)
        messages = self.check()
        self.assertTrue(any(re.match(r"generated/dequant/ingot_dequant_q4_0_f32_sm75\.cu:\d+: differs", m) for m in messages))
        self.assertTrue(any(re.match(r"generated/kernels\.inc:\d+: differs", m) for m in messages))
        self.assertTrue(any(m.startswith("+INGOT_GLOBAL(ingot_dequant_q4_0_f32_sm75, 128,") for m in messages))

    def test_new_row_is_missing_until_written(self):
        self.rows.append(rows.dequant("q4_1", "f32"))
        self.assertIn("generated/dequant/ingot_dequant_q4_1_f32_sm75.cu:1: missing (make gen writes it)", self.check())

    def test_edited_output(self):
        line = self.edit("generated/dequant/ingot_dequant_q6_K_bf16_sm75.cu", "ingot_pdl_wait();", "")
        self.assertTrue(self.check()[0].startswith(f"generated/dequant/ingot_dequant_q6_K_bf16_sm75.cu:{line}: differs"))

    def test_edited_last_line(self):
        path = self.root / "generated/blocks.h"
        path.write_text(path.read_text() + "// more\n")
        self.assertIn("generated/blocks.h", self.check()[0])

    def test_stray_file(self):
        (self.root / "generated/dequant/old.cu").write_text("")
        self.assertEqual(self.check(), ["generated/dequant/old.cu:1: stray, no row makes it (make gen deletes it)"])
        gen.write(self.root, self.render())
        self.assertFalse((self.root / "generated/dequant/old.cu").exists())
        self.assertEqual(self.check(), [])

    def test_unchanged_files_are_not_touched(self):
        path = self.root / "generated/kernels.inc"
        os.utime(path, (1, 1))
        self.assertEqual(gen.write(self.root, self.render()), 0)
        self.assertEqual(path.stat().st_mtime, 1)


class Templates(Tree):
    def test_misspelt_variable(self):
        line = self.edit("templates/dequant.cu.jinja", "${k.groups}", "${k.group}")
        self.assert_error(f"templates/dequant.cu.jinja:{line}: ", "group", "dequant q4_0 f32 sm75")

    def test_misspelt_macro(self):
        line = self.edit("templates/dequant.cu.jinja", "${quant.decode8()}", "${quant.decode9()}")
        self.assert_error(f"templates/dequant.cu.jinja:{line}: ", "decode9")

    def test_misspelt_variable_inside_a_macro(self):
        line = self.edit("templates/quant/parts.jinja", "${bytes // 2}", "${byte // 2}")
        self.assert_error(f"templates/quant/parts.jinja:{line}: ", "byte")

    def test_missing_quant_file(self):
        (self.root / "templates/quant/q6_K.jinja").unlink()
        self.assert_error("templates/quant/q6_K.jinja: no such template")

    def test_missing_template(self):
        (self.root / "templates/mmvq.cu.jinja").unlink()
        self.assert_error("templates/mmvq.cu.jinja: no such template")

    def test_syntax_error(self):
        line = self.edit("templates/dequant.cu.jinja", "${k.unit}", "${k.unit +}")
        self.assert_error(f"templates/dequant.cu.jinja:{line}: ")

    def test_refused_statements(self):
        for text, word in (("//% if k.unit\n//% endif\n", "if"), ("//% set x = 1\n", "set"), ("${k.unit|abs}\n", "filter"),
                           ("${{'a': 1}}\n", "dictionary"), ("${1 if k.unit else 2}\n", "if"),
                           ("//% for i in range(2) if i\n//% endfor\n", "if")):
            with self.subTest(text=text):
                file = self.root / "templates/dequant.cu.jinja"
                before = file.read_text()
                file.write_text(before + text)
                self.assert_error(f"templates/dequant.cu.jinja:{before.count(chr(10)) + 1}: `{word}` is not allowed")
                file.write_text(before)

    def test_c_braces_pass_through(self):
        self.edit("templates/dequant.cu.jinja", "float y[8];", "float y[8] = {{0}.x, {1} /* %} #} */};")
        self.assertIn("float y[8] = {{0}.x, {1} /* %} #} */};", self.render()["dequant/ingot_dequant_q4_0_f32_sm75.cu"])


class Output(Tree):
    def test_same_bytes_twice(self):
        self.assertEqual(self.render(), self.render())

    def test_current_folder_and_environment_do_not_matter(self):
        command = [sys.executable, "-B", str(ROOT / "gen/gen.py"), "--check"]
        outputs = set()
        for folder, seed in ((ROOT, "1"), (self.root, "2")):
            done = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": "C"},
                                  capture_output=True, text=True)
            outputs.add((done.returncode, done.stdout, done.stderr))
        self.assertEqual(len(outputs), 1, outputs)

    def test_no_absolute_path_in_any_output(self):
        for name, text in self.render().items():
            self.assertNotIn(str(self.root), text, name)
            self.assertTrue(text.startswith("// SPDX-License-Identifier: MIT\n"), name)
            self.assertTrue(text.endswith("\n") and not text.endswith("\n\n"), name)


class Rows(unittest.TestCase):
    def test_symbols_are_unique_and_named_by_their_axes(self):
        symbols = [r.symbol for r in rows.rows()]
        self.assertEqual(len(symbols), len(set(symbols)))
        for r in rows.rows():
            self.assertRegex(r.symbol, r"^ingot_[a-z_0-9]+_sm(75|80|90)$|^ingot_[a-z_0-9]+_K(_[a-z0-9]+)?_sm(75|80|90)$")
            self.assertEqual(r.file, f"{r.family}/{r.symbol}.cu")
        self.assertEqual(rows.mmvq("q4_K", 8, 1, 1).symbol, "ingot_mmvq_q4_K_n8_sm75")
        self.assertEqual(rows.dequant("q4_0", "f16").symbol, "ingot_dequant_q4_0_f16_sm75")

    def test_weights_have_products_and_activations_have_none(self):
        self.assertLessEqual(set(quants.ACTIVATIONS), set(quants.BLOCKS))
        products = {r.type for r in rows.rows() if r.family.startswith("mmvq")}
        self.assertEqual(products, set(quants.WEIGHTS))

    def test_two_rows_of_one_symbol(self):
        with self.assertRaises(gen.GenError) as caught:
            gen.render_all(ROOT, [rows.dequant("q4_0", "f32"), rows.dequant("q4_0", "f32", threads=128)])
        self.assertIn("gen/rows.py: two rows make the symbol ingot_dequant_q4_0_f32_sm75", str(caught.exception))

    def test_serves(self):
        base = rows.mmvq("q4_0", 1, 4, 2)
        other = rows.mmvq("q4_0", 2, 4, 2)
        sm80, sm90 = (dataclasses.replace(base, arch=arch) for arch in (80, 90))
        self.assertEqual(rows.serves([base, other]), {base.symbol: [75, 80, 90], other.symbol: [75, 80, 90]})
        self.assertEqual(rows.serves([base, sm80]), {base.symbol: [75], sm80.symbol: [80, 90]})
        self.assertEqual(rows.serves([sm90, base]), {base.symbol: [75, 80], sm90.symbol: [90]})
        self.assertEqual(rows.serves([sm90, sm80, base]), {base.symbol: [75], sm80.symbol: [80], sm90.symbol: [90]})
        self.assertEqual(rows.serves([sm80]), {sm80.symbol: [80, 90]})

    def test_table_row(self):
        line = gen.kernels_inc([rows.mmvq("q4_0", 4, 2, 2)]).splitlines()[-1]
        self.assertRegex(line, r"^INGOT_KERNEL\(MMVQ,\s+Q4_0,\s+4,\s+75,\s+INGOT_CLASS_75 \| INGOT_CLASS_80 \| INGOT_CLASS_90,"
                               r"\s+256,\s+0,\s+16,\s+ingot_mmvq_q4_0_n4_sm75\)$")

    def test_unknown_family(self):
        with self.assertRaises(gen.GenError):
            gen.render_all(ROOT, [dataclasses.replace(rows.dequant("q4_0", "f32"), family="nothing")])

    def test_limits(self):
        for r in rows.rows():
            self.assertEqual(r.threads % 32, 0, r.what)
            self.assertLessEqual(r.threads, 1024, r.what)
            self.assertGreaterEqual(r.unit, 1, r.what)


class Quants(unittest.TestCase):
    def test_structs_hold_what_the_type_says(self):
        for name, members in quants.STRUCTS.items():
            self.assertEqual(sum(size for _, _, size, _ in members), quants.BY_NAME[name].bytes, name)

    def test_every_public_type_has_facts(self):
        header = (ROOT / "include/ingot.h").read_text()
        public = {(n, int(v)) for n, v in re.findall(r"INGOT_TYPE_(\w+)\s+= (\d+)", header)}
        self.assertEqual(public, {(t.enum, t.number) for t in quants.TYPES})

    def test_facts_agree_with_the_package_gguf(self):
        try:
            import gguf
        except ImportError:
            self.skipTest("the package gguf is not installed")
        for t in quants.TYPES:
            kind = getattr(gguf.GGMLQuantizationType, t.enum, None)
            if kind in gguf.GGML_QUANT_SIZES and t.name != "q8_1":
                self.assertEqual((int(kind), *gguf.GGML_QUANT_SIZES[kind]), (t.number, t.block, t.bytes), t.name)

    def test_blocks_h_compiles(self):
        for compiler, standard in (("cc", "c11"), ("c++", "c++17")):
            if not shutil.which(compiler):
                self.skipTest(f"{compiler} is not installed")
            done = subprocess.run([compiler, f"-std={standard}", "-Wall", "-Werror", "-Wpedantic", "-fsyntax-only", "-x",
                                   "c" if compiler == "cc" else "c++", "-"], input=quants.blocks_h(), text=True, capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr)


class Books(unittest.TestCase):
    """Every entry of every code book, taken out of its word, against the package gguf."""

    def grid(self, name):
        try:
            from gguf import quants as definition
        except ImportError:
            self.skipTest("the package gguf is not installed")
        format = getattr(definition, name.upper())
        format.init_grid()
        return format.grid.reshape(format.grid_shape).tolist()

    def compare(self, values, names):
        """values(word): the weights of an entry"""
        for name in names:
            grid = self.grid(name)
            self.assertEqual(len(books.BOOKS[name].words), len(grid), name)
            for i, (word, entry) in enumerate(zip(books.BOOKS[name].words, grid)):
                self.assertEqual(list(values(word)), entry, f"{name}, entry {i}")

    @staticmethod
    def nibbles(word):
        return [word >> 4 * i & 15 for i in range(8)]

    def test_selectors_pick_the_levels(self):
        def values(word):
            self.assertTrue(word >> 30 & 1)
            levels = self.nibbles(word ^ 1 << 30)
            return [(8, 25, 43)[level] for level in levels[::2] + levels[1::2]]
        self.compare(values, ("iq2_xxs", "iq2_xs", "iq2_s"))

    def test_bytes(self):
        self.compare(lambda word: word.to_bytes(4, "little"), ("iq3_xxs", "iq3_s"))

    def test_levels_in_nibbles(self):
        self.compare(lambda word: [level - 1 for level in self.nibbles(word)], ("iq1_s", "iq1_m"))

    def test_no_book_is_left_out(self):
        self.assertEqual(set(books.BOOKS), {name for name in quants.BLOCKS if name.startswith(("iq1", "iq2", "iq3"))})


class Committed(unittest.TestCase):
    def test_output_is_up_to_date(self):
        self.assertEqual(gen.check(ROOT, gen.render_all()), [])


if __name__ == "__main__":
    unittest.main()

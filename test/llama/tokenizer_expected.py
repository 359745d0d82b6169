# SPDX-License-Identifier: MIT
"""Writes what other tokenizers make of many strings, for test_tokenizer to compare with.

    tokenizer_expected.py MODEL.gguf FOLDER

FOLDER/bpe.txt      ids by the package `tokenizers`, built from MODEL's own vocabulary and merges
FOLDER/pieces.txt   pieces of each pre-tokeniser rule by the same package's regex engine
FOLDER/spm.gguf     a vocabulary that the package `sentencepiece` trained here (when it is there)
FOLDER/spm.txt      ids by that package

A line is `RULE HEX-OF-TEXT N,N,...`: ids, or lengths of pieces in bytes. Exit status 77 with a
reason on stderr when a package is missing.
"""
import importlib
import pathlib
import random
import sys
import unicodedata

SKIP = 77
RANDOM_STRINGS = 2500

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
RULES = {
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "llama-bpe": [LLAMA3],
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"],
}

FIXED = [
    "", " ", "  ", "\n", "\n\n", " \n", "\t", "a", " a", "  a", "   a  b   ", "Hello, world!",
    "The capital of France is", "don't can't I'll we've you're I'm he'd she's", "DON'T CAN'T I'LL",
    "it\u2019s", "'\u017f", "'S 'T 'RE", "' s", "''s", "'", "'re", "'r", "1234567890", "3.14159",
    "x=1+2*3;", "for (int i = 0; i < 10; i++) {\n    printf(\"%d\\n\", i);\n}\n", "\r\n\r\n  x\r\n",
    "na\u00efve caf\u00e9 \u00fcber", "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440", "\u0645\u0631\u062d\u0628\u0627",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467", "e\u0301", "\u00bd \u2167 \u0663\u0664",
    "a\u00a0b\u2003c\u3000d", "\u2028\u2029", "\x00\x01\x04\x7f", "a\x04b", "x" * 500, " " * 70,
    "ab" * 300, "\n" * 40, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|", "<|im_end|><|im_end|>", "<reponame>x<repo_name>", "<|endoftext|>12 34",
    "\u2581x\u2581 y", "<0x41>", "$100 & <tag> ^~|`", "A1B22C333D4444", "1 2  3   4", "a 1\n 2",
]


def need(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"the Python package {name} is not installed", file=sys.stderr)
        sys.exit(SKIP)


def strings():
    """The fixed strings, then random ones over pools that touch each rule."""
    rng = random.Random(20240229)
    assigned = [c for c in range(0x250, 0x30000)
                if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    pools = [
        "abcdefgh ", "ab 1'\n", "'sStTrReEvVmMlLdD ", " \t\n\r\u00a0\u2003x", "0123456789 a.",
        [chr(c) for c in range(128)], [chr(c) for c in range(0x80, 0x250)],
        [chr(c) for c in assigned], "the of and to in is was for on that ", "<|im_startend>_ \n",
        "$+<=>^~|!?,.;:(){}[]#@ a1\n",
    ]
    yield from FIXED
    for _ in range(RANDOM_STRINGS):
        out = []
        for _ in range(rng.randint(1, 4)):
            pool = rng.choice(pools)
            out += [rng.choice(pool) for _ in range(rng.randint(1, 12))]
        yield "".join(out)


def write(path, rows):
    with open(path, "w", encoding="ascii") as f:
        for rule, text, numbers in rows:
            f.write(f"{rule} {text.encode().hex() or '-'} {','.join(map(str, numbers)) or '-'}\n")


def bpe_rows(tk, fields):
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    tok = tk.Tokenizer(tk.models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    tok.pre_tokenizer = tk.pre_tokenizers.Sequence([
        tk.pre_tokenizers.Digits(individual_digits=True),
        tk.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ])
    tok.add_special_tokens([tk.AddedToken(t, normalized=False, special=True)
                            for t, k in zip(tokens, types) if k == 3])
    for s in strings():
        yield "smollm", s, tok.encode(s, add_special_tokens=False).ids


def piece_rows(tk):
    for rule, patterns in RULES.items():
        split = tk.pre_tokenizers.Sequence([
            tk.pre_tokenizers.Split(tk.Regex(p), behavior="isolated") for p in patterns])
        for s in strings():
            pieces = split.pre_tokenize_str(s) if s else []
            yield rule, s, [len(p.encode()) for p, _ in pieces]


def train_spm(folder):
    """Trains a small byte-fallback BPE vocabulary on the strings and writes it as GGUF."""
    import gguf
    import sentencepiece as sp
    model = str(folder / "spm")
    # Characters beyond Latin stay out of the vocabulary, so that they become byte tokens.
    lines = [s.replace("\0", "") for s in strings() if all(ord(c) < 0x250 for c in s)]
    lines += ["the cat sat on the mat with the hat"] * 50
    sp.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=model, vocab_size=1200, model_type="bpe",
        byte_fallback=True, normalization_rule_name="identity", add_dummy_prefix=True,
        remove_extra_whitespaces=False, character_coverage=1.0, split_digits=True,
        minloglevel=2)
    p = sp.SentencePieceProcessor(model_file=model + ".model")
    w = gguf.GGUFWriter(str(folder / "spm.gguf"), "llama")
    ids = range(p.vocab_size())
    w.add_tokenizer_model("llama")
    w.add_token_list([p.id_to_piece(i) for i in ids])
    w.add_token_scores([p.get_score(i) for i in ids])
    w.add_token_types([2 if p.is_unknown(i) else 3 if p.is_control(i) else 6 if p.is_byte(i) else 1
                       for i in ids])
    w.add_bos_token_id(p.bos_id())
    w.add_eos_token_id(p.eos_id())
    w.add_unk_token_id(p.unk_id())
    w.add_add_bos_token(False)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()
    # An empty text gets no prefix on either side; control names are plain text to sentencepiece.
    for s in strings():
        if s and "\0" not in s:
            yield "spm", s, p.encode(s)


def main():
    model, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    tk = need("tokenizers")
    for part in ("models", "pre_tokenizers"):
        need(f"tokenizers.{part}")
    fields = need("gguf").GGUFReader(model).fields
    write(folder / "bpe.txt", bpe_rows(tk, fields))
    write(folder / "pieces.txt", piece_rows(tk))
    try:
        import sentencepiece  # noqa: F401
    except ImportError:
        return
    write(folder / "spm.txt", list(train_spm(folder)))


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reference logits of a llama-type GGUF, computed with numpy from the definition of the architecture.

    make_logits.py MODEL.gguf OUT_DIR [--continue N]

Writes OUT_DIR/tokens.txt (32 token ids on one line, separated by commas) and OUT_DIR/logits.f32 (raw little-endian
float32, [32][n_vocab]: row i holds the logits after tokens 0..i).  Weights are dequantised by the PyPI package `gguf`,
which shares no code with the library under test.  Sums are float32 (matrix products) and float64 (norms, softmax).

--continue N prints, instead, N greedy tokens after the text: a person can see that the forward pass makes sense.
"""

import argparse
import pathlib
import sys

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

POSITIONS = 32
# A text the model is sure about: the best two logits lie at least 0.1 apart at each position, so a different argmax is a
# fault and not a tie that rounding activations to 8 bits decides.
TEXT = ("The days of the week are Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and Sunday. The months of the "
        "year are January, February, March, April, May, June, July")


class Model:
    """A llama-type model: weights by name, hyperparameters by key."""

    def __init__(self, path):
        self.reader = GGUFReader(path)
        self.arch = self.value("general.architecture")
        if self.arch != "llama":
            sys.exit(f"make_logits: architecture '{self.arch}', expected 'llama'")
        self.tensors = {t.name: t for t in self.reader.tensors}
        self.cache = {}
        self.layers = self.value("llama.block_count")
        self.heads = self.value("llama.attention.head_count")
        self.groups = self.value("llama.attention.head_count_kv", self.heads)
        self.width = self.value("llama.embedding_length")
        self.eps = self.value("llama.attention.layer_norm_rms_epsilon")
        self.base = self.value("llama.rope.freq_base", 10000.0)
        self.head_size = self.value("llama.attention.key_length", self.width // self.heads)
        self.rotated = self.value("llama.rope.dimension_count", self.head_size)
        if self.value("llama.rope.scaling.type", "none") != "none" or "rope_freqs.weight" in self.tensors:
            sys.exit("make_logits: scaled rotary embeddings are not covered here")

    def value(self, key, default=None):
        field = self.reader.fields.get(key)
        if field is None:
            if default is None:
                sys.exit(f"make_logits: the file has no key '{key}'")
            return default
        return field.contents()

    def weight(self, name):
        """float32 [rows, k], as numpy orders it: the GGUF's ne[0] is the last axis."""
        if name not in self.cache:
            tensor = self.tensors[name]
            self.cache[name] = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        return self.cache[name]

    def norm(self, x, name):
        mean = np.mean(np.square(x, dtype=np.float64), axis=-1, keepdims=True)
        return ((x / np.sqrt(mean + self.eps)) * self.weight(name)).astype(np.float32)

    def rotate(self, x):
        """x [positions, heads, head_size]; the file pairs neighbours (2i, 2i+1)."""
        half = self.rotated // 2
        frequency = self.base ** (-2.0 * np.arange(half) / self.rotated)
        angle = np.arange(x.shape[0])[:, None, None] * frequency
        even, odd = x[..., 0:self.rotated:2], x[..., 1:self.rotated:2]
        out = x.copy()
        out[..., 0:self.rotated:2] = even * np.cos(angle) - odd * np.sin(angle)
        out[..., 1:self.rotated:2] = even * np.sin(angle) + odd * np.cos(angle)
        return out

    def attention(self, x, layer):
        n = x.shape[0]
        q = (x @ self.weight(f"blk.{layer}.attn_q.weight").T).reshape(n, self.heads, self.head_size)
        k = (x @ self.weight(f"blk.{layer}.attn_k.weight").T).reshape(n, self.groups, self.head_size)
        v = (x @ self.weight(f"blk.{layer}.attn_v.weight").T).reshape(n, self.groups, self.head_size)
        q, k = self.rotate(q), self.rotate(k)
        per_group = self.heads // self.groups
        out = np.empty_like(q)
        hidden = np.triu(np.ones((n, n), dtype=bool), 1)
        for head in range(self.heads):
            group = head // per_group
            score = (q[:, head].astype(np.float64) @ k[:, group].T.astype(np.float64)) / np.sqrt(self.head_size)
            score[hidden] = -np.inf
            weight = np.exp(score - score.max(axis=-1, keepdims=True))
            out[:, head] = (weight / weight.sum(axis=-1, keepdims=True)) @ v[:, group]
        return out.reshape(n, -1) @ self.weight(f"blk.{layer}.attn_output.weight").T

    def feed_forward(self, x, layer):
        gate = x @ self.weight(f"blk.{layer}.ffn_gate.weight").T
        up = x @ self.weight(f"blk.{layer}.ffn_up.weight").T
        hidden = gate / (1.0 + np.exp(-gate.astype(np.float64))) * up
        return hidden.astype(np.float32) @ self.weight(f"blk.{layer}.ffn_down.weight").T

    def logits(self, tokens):
        x = self.weight("token_embd.weight")[tokens]
        for layer in range(self.layers):
            x = x + self.attention(self.norm(x, f"blk.{layer}.attn_norm.weight"), layer)
            x = x + self.feed_forward(self.norm(x, f"blk.{layer}.ffn_norm.weight"), layer)
        x = self.norm(x, "output_norm.weight")
        head = "output.weight" if "output.weight" in self.tensors else "token_embd.weight"
        return x @ self.weight(head).T


def byte_alphabet():
    """The byte-level BPE's letters: printable bytes stand for themselves, the others follow from U+0100 on."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in plain}
    for b in range(256):
        if b not in letters:
            letters[b] = chr(256 + len(letters) - len(plain))
    return letters


def tokenize(model, text):
    """Plain byte-pair encoding of ASCII text: words take the space before them, punctuation stands alone."""
    if model.value("tokenizer.ggml.model") != "gpt2":
        sys.exit("make_logits: only byte-level BPE vocabularies are covered")
    vocabulary = {t: i for i, t in enumerate(model.value("tokenizer.ggml.tokens"))}
    rank = {m: i for i, m in enumerate(model.value("tokenizer.ggml.merges"))}
    letters = byte_alphabet()
    words = []
    for word in text.split(" "):
        core = word.rstrip(".,")
        words.append((" " if words else "") + core)
        words.extend(word[len(core):])
    ids = []
    for word in words:
        parts = [letters[b] for b in word.encode()]
        while len(parts) > 1:
            best = min(range(len(parts) - 1), key=lambda i: rank.get(f"{parts[i]} {parts[i + 1]}", len(rank)))
            if f"{parts[best]} {parts[best + 1]}" not in rank:
                break
            parts[best:best + 2] = [parts[best] + parts[best + 1]]
        ids += [vocabulary[p] for p in parts]
    return ids


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("out_dir", type=pathlib.Path)
    parser.add_argument("--continue", dest="more", type=int, default=0, metavar="N")
    options = parser.parse_args()

    model = Model(options.model)
    tokens = tokenize(model, TEXT)
    if len(tokens) < POSITIONS:
        sys.exit(f"make_logits: the text has {len(tokens)} tokens, {POSITIONS} are needed")
    tokens = tokens[:POSITIONS]
    if options.more:
        names = model.value("tokenizer.ggml.tokens")
        for _ in range(options.more):
            tokens.append(int(model.logits(tokens)[-1].argmax()))
        letters = {c: b for b, c in byte_alphabet().items()}
        print(bytes(letters[c] for t in tokens for c in names[t] if c in letters).decode(errors="replace"))
        return
    logits = model.logits(tokens).astype("<f4")
    if not np.isfinite(logits).all():
        sys.exit("make_logits: a logit is not finite")
    options.out_dir.mkdir(parents=True, exist_ok=True)
    (options.out_dir / "tokens.txt").write_text(",".join(map(str, tokens)) + "\n")
    logits.tofile(options.out_dir / "logits.f32")
    print(f"{len(tokens)} positions, {logits.shape[1]} logits each")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares two files of logits, raw float32 [32][n_vocab].

    compare_logits.py REFERENCE OTHER [--nmse 1e-3]

Passes (exit code 0) if the NMSE over everything is within the bound and the largest logit is the same token at each of
the 32 positions.  Otherwise prints what differs, with both files' logits of both tokens, and exits with 1.
"""

import argparse
import sys

import numpy as np

POSITIONS = 32


def load(path):
    data = np.fromfile(path, dtype="<f4")
    if data.size == 0 or data.size % POSITIONS:
        sys.exit(f"compare_logits: {path} holds {data.size} numbers, expected {POSITIONS} rows of equal length")
    return data.reshape(POSITIONS, -1).astype(np.float64)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reference")
    parser.add_argument("other")
    parser.add_argument("--nmse", type=float, default=1e-3)
    options = parser.parse_args()

    a, b = load(options.reference), load(options.other)
    if a.shape != b.shape:
        sys.exit(f"compare_logits: {a.shape[1]} logits a row in one file, {b.shape[1]} in the other")
    nmse = np.square(a - b).sum() / np.square(a).sum()
    best_a, best_b = a.argmax(axis=1), b.argmax(axis=1)
    differ = np.flatnonzero(best_a != best_b)
    for i in differ:
        ta, tb = best_a[i], best_b[i]
        print(f"position {i}: token {ta} ({a[i, ta]:.6f} against {a[i, tb]:.6f} for {tb}: gap {a[i, ta] - a[i, tb]:.6f}); "
              f"other file: token {tb} ({b[i, tb]:.6f} against {b[i, ta]:.6f} for {ta}: gap {b[i, tb] - b[i, ta]:.6f})")
    print(f"NMSE {nmse:.3e} (bound {options.nmse:.0e}), same argmax at {POSITIONS - differ.size} of {POSITIONS} positions")
    # Written so that NaN fails.
    return 0 if nmse <= options.nmse and differ.size == 0 else 1


if __name__ == "__main__":
    sys.exit(main())

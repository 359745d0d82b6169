#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares two runs of the bench, A (before) and B (after): python3 bench/compare.py A.json B.json

The files come from `make bench JSON=file`.  Prints the cases that are in both with their microseconds, B / A, and what
each took in terms of the read kernel of its own run (time / read); the cases that are in one file only; and the
geometric mean of the ratios.  Exit status: 0; 1 if a case is slower in B by more than the threshold; 2 if the arguments
or a file make no sense, or nothing is in both files.
"""
import argparse
import json
import math
import os
import sys


class Malformed(Exception):
    pass


def positive(value, what):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1e-9 <= value <= 1e15:
        raise Malformed(f"{what} is {json.dumps(value)[:40]}, expected a positive number")
    return float(value)


def load(path, field):
    """(where it ran, {case: (microseconds, time / read or None)}) of one file, in the order of the file."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except OSError as error:
        raise Malformed(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise Malformed(f"{path}: no JSON (a run that did not end?): {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("rows"), list):
        raise Malformed(f"{path}: has no list \"rows\"")
    rows = {}
    for number, row in enumerate(data["rows"]):
        case = row.get("case") if isinstance(row, dict) else None
        if not isinstance(case, str) or not case or not case.isprintable():
            raise Malformed(f"{path}: row {number} has no case")
        if case in rows:
            raise Malformed(f"{path}: \"{case}\" is there twice")
        if row.get(field) is None:
            if field == "us":
                raise Malformed(f"{path}: \"{case}\" has no us")
            continue
        us = positive(row[field], f"{path}: \"{case}\": {field}")
        read = row.get("read_us")
        rows[case] = us, None if read is None else us / positive(read, f"{path}: \"{case}\": read_us")
    build = data.get("build") if isinstance(data.get("build"), dict) else {}
    where = f"{path}: {data.get('device', '?')}, ingot {data.get('ingot', '?')} for \"{build.get('archs', '?')}\""
    return where, rows


def threshold(text):
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError
    return value


def show(ratio):
    return f"{ratio:8.2f}" if ratio is not None else f"{'-':>8}"


def compare(a, b, limit, out):
    """Prints the table; the number of cases that got slower."""
    both = [case for case in a if case in b]
    width = max([len(case) for case in both] + [4])
    slower = 0
    print(f"{'case':<{width}} {'A us':>10} {'B us':>10} {'B/A':>7} {'A/read':>8} {'B/read':>8}", file=out)
    for case in both:
        ratio = b[case][0] / a[case][0]
        late = ratio > 1 + limit
        slower += late
        print(f"{case:<{width}} {a[case][0]:10.2f} {b[case][0]:10.2f} {ratio:7.3f} {show(a[case][1])} {show(b[case][1])}"
              f"{'  slower' if late else ''}", file=out)
    for name, one, other in (("A", a, b), ("B", b, a)):
        alone = [case for case in one if case not in other]
        if alone:
            print(f"\nonly in {name}:", file=out)
            for case in alone:
                print(f"  {case}", file=out)
    mean = math.exp(sum(math.log(b[case][0] / a[case][0]) for case in both) / len(both))
    print(f"\n{len(both)} cases, geometric mean of B/A {mean:.3f}, {slower} slower by more than {100 * limit:g} %", file=out)
    return slower


def main(argv=None, out=sys.stdout, err=sys.stderr):
    parser = argparse.ArgumentParser(prog="compare.py", description="Compares two runs of the bench.")
    parser.add_argument("a", metavar="A.json", help="before")
    parser.add_argument("b", metavar="B.json", help="after")
    parser.add_argument("--threshold", type=threshold, default=0.05, help="how much slower is too slow (default 0.05)")
    parser.add_argument("--field", choices=("us", "chain_us", "us_without_pdl"), default="us",
                        help="which microseconds (default us)")
    options = parser.parse_args(argv)
    try:
        (where_a, a), (where_b, b) = load(options.a, options.field), load(options.b, options.field)
        if not any(case in b for case in a):
            raise Malformed(f"{options.a} and {options.b} have no case with {options.field} in common")
    except Malformed as error:
        print(f"compare: {error}", file=err)
        return 2
    print(f"A  {where_a}\nB  {where_b}\n", file=out)
    return 1 if compare(a, b, options.threshold, out) else 0


if __name__ == "__main__":
    try:
        status = main()
        sys.stdout.flush()
    except OSError as error:  # a pipe that ends early, a full disk
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"compare: the table could not be written: {error.strerror}", file=sys.stderr)
        status = 2
    sys.exit(status)

# SPDX-License-Identifier: MIT
"""Which kernels exist: one row each.  A row is the file, the symbol, the table entry, the test and the bench.

A row is written family(...) with its axes as lists; rows() expands them.  `arch` is the instruction level the source
is written for (75, 80, 90).  Numbers that a template uses are named here and computed here; templates do no arithmetic.
"""
from dataclasses import dataclass, field

from quants import BLOCKS, BY_NAME, FLOATS

# Families in the order of enum ingot_family.  A family's template is templates/<name>.cu.jinja.
FAMILIES = ["dequant", "copy", "quantize", "mmvq", "mmvf", "get_rows", "set_rows", "add", "mul", "rms_norm", "rope",
            "silu", "swiglu", "soft_max", "attn"]

# How a tile is spelled in a symbol, and what number it is in the table.
TILE_NONE, TILE_TYPE, TILE_COLUMNS, TILE_HEAD = "none", "type", "n", "d"


@dataclass(frozen=True)
class Row:
    family: str
    type: str        # GGUF spelling
    tile: object     # None, a type name, columns or a head size, as `kind` says
    kind: str
    arch: int        # 75, 80 or 90 (90 means sm_90a)
    threads: int     # per block
    unit: int        # items per block; what an item is, each family below says
    smem: int        # dynamic shared memory, bytes
    min_blocks: int  # blocks per SM the registers must leave room for
    cost: str        # one line for the generated file's header
    numbers: dict = field(default_factory=dict)

    def __getattr__(self, name):  # a template's ${k.name} finds the row's numbers too
        try:
            return self.__dict__["numbers"][name]
        except KeyError:
            raise AttributeError(f"row {self.family} {self.type} has no number '{name}'") from None

    @property
    def tile_name(self):
        return {TILE_NONE: "", TILE_TYPE: str(self.tile), TILE_COLUMNS: f"n{self.tile}", TILE_HEAD: f"d{self.tile}"}[self.kind]

    @property
    def tile_number(self):
        return {TILE_NONE: 0, TILE_TYPE: getattr(BY_NAME.get(self.tile), "number", None)}.get(self.kind, self.tile)

    @property
    def symbol(self):
        """The one place where a kernel gets its name: axes in fixed order, arch last."""
        return "_".join(part for part in ("ingot", self.family, self.type, self.tile_name, f"sm{self.arch}") if part)

    @property
    def file(self):
        return f"{self.family}/{self.symbol}.cu"

    @property
    def template(self):
        return f"{self.family}.cu.jinja"

    @property
    def what(self):
        return " ".join(part for part in (self.family, self.type, self.tile_name, f"sm{self.arch}") if part)

    @property
    def source(self):
        return BY_NAME[self.type]


def row(family, type, tile=None, kind=TILE_NONE, *, arch=75, threads, unit, smem=0, min_blocks=1, cost, **numbers):
    return Row(family, type, tile, kind, arch, threads, unit, smem, min_blocks, cost, numbers)


# ---- how much one block of each family takes on ------------------------------------------------------------------

def dequant(type, to, threads=256, groups=4):
    """Items are groups of 8 consecutive weights of a row."""
    t, out = BY_NAME[type], BY_NAME[to]
    return row("dequant", type, to, TILE_TYPE, threads=threads, unit=threads * groups, groups=groups, out_bytes=out.bytes,
               cost=f"{8 * groups} weights per thread, {threads} threads; reads {8 * t.bytes / t.block:g} bits "
                    f"and writes {8 * out.bytes} per weight.")


def quantize(type, threads=128):
    """Items are blocks of 32 activations; 8 lanes take one block."""
    t = BY_NAME[type]
    return row("quantize", type, threads=threads, unit=threads // 8, in_bytes=t.bytes,
               cost=f"8 lanes per block of 32, {threads} threads; reads {8 * t.bytes} bits and writes 10 per element.")


def mmvq(type, n, rows, min_blocks, threads=256, unit=16):
    """Items are rows of w.  A lane owns a unit of 64 weights; `rows` rows are in flight per lane."""
    t = BY_NAME[type]
    return row("mmvq", type, n, TILE_COLUMNS, threads=threads, unit=unit, min_blocks=min_blocks, rows=rows, n=n,
               warps=threads // 32, values=rows * n, unit_bytes=64 * t.bytes // t.block, block_bytes=t.bytes,
               cost=f"{unit} rows by {threads} threads, {rows} rows in flight, {n} column{'s' * (n > 1)}; "
                    f"{8 * t.bytes / t.block:g} bits per weight.")


def mmvf(type, n, rows, min_blocks, threads=256, unit=16):
    """Items are rows of w.  A lane owns groups of 8 weights; `rows` rows are in flight per lane."""
    t = BY_NAME[type]
    return row("mmvf", type, n, TILE_COLUMNS, threads=threads, unit=unit, min_blocks=min_blocks, rows=rows, n=n,
               warps=threads // 32, values=rows * n,
               cost=f"{unit} rows by {threads} threads, {rows} rows in flight, {n} column{'s' * (n > 1)}; "
                    f"{8 * t.bytes} bits per weight.")


# ---- the rows ----------------------------------------------------------------------------------------------------

def rows():
    """Every kernel of the library, in the order of the table."""
    out = []

    out += [dequant(type, to)                        for type in BLOCKS for to in FLOATS]
    # Rows of the other families come here, each with its template.

    return out


def serves(rows):
    """For each row the classes of chips on which it is the best of its family, type and tile.

    Classes: 75; 80 (8.x, 10.x and later, whose SASS comes from the same source); 90 (sm_90a).  A chip of a class runs
    the rows of its level and below; the best is the highest.
    """
    best = {}
    for r in rows:
        for chip in (75, 80, 90):
            key = (r.family, r.type, r.tile_number, chip)
            if r.arch <= chip and (key not in best or best[key].arch < r.arch):
                best[key] = r
    masks = {r.symbol: [] for r in rows}
    for (_, _, _, chip), r in best.items():
        masks[r.symbol].append(chip)
    return masks

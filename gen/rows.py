# SPDX-License-Identifier: MIT
"""Which kernels exist: one row each.  A row is the file, the symbol, the table entry, the test and the bench.

A row is written family(...) with its axes as lists; rows() expands them.  `arch` is the instruction level the source
is written for (75, 80, 90).  Numbers that a template uses are named here and computed here; templates do no arithmetic.
"""
from dataclasses import dataclass, field
from math import gcd

import books
from quants import BLOCKS, BY_NAME, FLOATS

# Families in the order of enum ingot_family.  A family's template is templates/<name>.cu.jinja, or the one its rows name.
FAMILIES = ["dequant", "copy", "move", "quantize", "mmvq", "mmvq_ring", "mmvq_mma", "mmq", "mmvf", "mmvf_ring", "mmvf_wide",
            "get_rows", "set_rows", "add", "mul", "rms_norm", "rope", "unary", "glu", "soft_max", "attn"]

# How a tile is spelled in a symbol, and what number it is in the table.
TILE_NONE, TILE_TYPE, TILE_COLUMNS, TILE_HEAD, TILE_BYTES = "none", "type", "n", "d", "b"


@dataclass(frozen=True)
class Row:
    family: str
    type: str        # GGUF spelling
    tile: object     # None, a type name, columns, a head size or bytes, as `kind` says
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
        return {TILE_NONE: "", TILE_TYPE: str(self.tile)}.get(self.kind, f"{self.kind}{self.tile}")

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
        return f"{self.numbers.get('template', self.family)}.cu.jinja"

    @property
    def what(self):
        return " ".join(part for part in (self.family, self.type, self.tile_name, f"sm{self.arch}") if part)

    @property
    def book(self):
        return books.header(self.type)

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


def book_bytes(type):
    """What the code book takes of dynamic shared memory."""
    return (len(books.BOOKS[type].words) + 3) // 4 * 16 if type in books.BOOKS else 0


def quantize(type, threads=128):
    """Items are blocks of 32 activations; 8 lanes take one block."""
    t = BY_NAME[type]
    return row("quantize", type, threads=threads, unit=threads // 8, in_bytes=t.bytes,
               cost=f"8 lanes per block of 32, {threads} threads; reads {8 * t.bytes} bits and writes 10 per element.")


def mmvq(type, n, rows, min_blocks, threads=256, unit=16):
    """Items are rows of w.  A lane owns a unit of 64 weights; `rows` rows are in flight per lane."""
    t = BY_NAME[type]
    return row("mmvq", type, n, TILE_COLUMNS, threads=threads, unit=unit, min_blocks=min_blocks, rows=rows, n=n,
               warps=threads // 32, values=rows * n, reach=64 * threads, many=512, busy=256, plural="s" * (n > 1),
               cost=f"{unit} rows by {threads} threads, {rows} rows in flight, {n} column{'s' * (n > 1)}; "
                    f"{8 * t.bytes / t.block:g} bits per weight.")


def mmvq_ring(type, n, rows, min_blocks=1, threads=512):
    """Items are rows of w in a slot of a ring, which the launch's plan (src/ops/mmv.c) multiplies; so unit is `rows`."""
    t = BY_NAME[type]
    assert rows in (2, 4, 8) and rows * n <= 8, "a set of 8 lanes hands out 8 sums at most"
    return row("mmvq_ring", type, n, TILE_COLUMNS, arch=90, threads=threads, unit=rows, smem=book_bytes(type), min_blocks=min_blocks,
               rows=rows, n=n, values=rows * n, log_values=(rows * n).bit_length() - 1, slice=2048 // t.block * t.bytes,
               plural="s" * (n > 1),
               cost=f"A ring for each warp, {rows} rows a lane and slot, {n} column{'s' * (n > 1)}; "
                    f"{8 * t.bytes / t.block:g} bits per weight.")


def mmvq_mma(type, depth, threads=256):
    """Items are rows of w; a tile has 16.  The launch's plan is in src/ops/mmv.c."""
    t = BY_NAME[type]
    slab = 256 // t.block * t.bytes
    pieces = (slab + 16 - gcd(slab, 16) + 15) // 16  # at most: a slab may begin between two pieces
    return row("mmvq_mma", type, 8, TILE_COLUMNS, threads=threads, unit=depth, smem=book_bytes(type), min_blocks=2, slab=slab, pieces=pieces,
               depth=depth, x_order=X_ORDERS.get(type, "slab_x_plain"),
               cost=f"Tiles of 16 rows x 256 columns on int8 tensor cores, {depth} slabs ahead; {8 * t.bytes / t.block:g} bits per weight.")


BOOKED = list(books.BOOKS)

# Formats that want the activations in another order (src/device/slab.cuh).
X_ORDERS = {"iq4_nl": "slab_x_nibbles", "iq4_xs": "slab_x_nibbles", "mxfp4": "slab_x_nibbles", "nvfp4": "slab_x_nibbles_16"} | {
    type: "slab_x_pairs" for type in BOOKED}


def mmq(type, n, mt, nt, across, min_blocks, threads=256):
    """Items are tiles of the result.  A warp makes mt x nt tiles of 16 x 8; `across` warps lie side by side along columns."""
    t = BY_NAME[type]
    rows = 16 * mt * (threads // 32 // across)
    assert 8 * nt * across == n and nt % 2 == 0
    return row("mmq", type, n, TILE_COLUMNS, threads=threads, unit=rows, min_blocks=min_blocks, rows=rows, n=n, mt=mt, nt=nt,
               across=across, depth=128,
               cost=f"{rows} x {n} sums on int8 tensor cores; {8 * t.bytes / t.block:g} bits per weight.")


def mmvf(type, n, rows, min_blocks, threads=256, unit=16):
    """Items are rows of w.  A lane owns groups of 8 weights; `rows` rows are in flight per lane."""
    t = BY_NAME[type]
    return row("mmvf", type, n, TILE_COLUMNS, threads=threads, unit=unit, min_blocks=min_blocks, rows=rows, n=n,
               warps=threads // 32, values=rows * n,
               cost=f"{unit} rows by {threads} threads, {rows} rows in flight, {n} column{'s' * (n > 1)}; "
                    f"{8 * t.bytes} bits per weight.")


def mmvf_ring(type, rows, lane=32, threads=512):
    """Items are rows of w in a slot of a ring; so unit is `rows`.  A lane owns `lane` columns.  Planned by src/ops/mmv.c."""
    t = BY_NAME[type]
    return row("mmvf_ring", type, 1, TILE_COLUMNS, arch=90, threads=threads, unit=rows, rows=rows, spread=32 // rows,
               lane=lane, piece=16 // t.bytes, pieces=lane * t.bytes // 16, slice=32 * lane * t.bytes,
               cost=f"A ring for each warp, {rows} rows in a slot; {8 * t.bytes} bits per weight.")


def mmvf_wide(type, n, rows, threads):
    """Items are rows of w; a tile has `rows`.  A warp has 1024 bytes of each.  Planned by src/ops/mmv.c."""
    t = BY_NAME[type]
    span, values = 1024 // t.bytes, min(rows * n, 32)
    return row("mmvf_wide", type, n, TILE_COLUMNS, arch=90, threads=threads, unit=rows, rows=rows, n=n, size=t.bytes,
               span=span, values=values, parts=rows * n // values,
               spread=32 // values,
               cost=f"Tiles of {rows} rows, {n} columns of activations in shared memory; {8 * t.bytes} bits per weight.")


# Items of the element-wise families are elements of dst (of src for SET_ROWS), of RMS_NORM and SOFT_MAX rows, of ATTN
# queries times heads times batches.  All of these kernels take what their grid leaves over in further rounds, so any
# grid is right and ceil(items / unit) is fast.

def vector(*types):
    """Elements of a thread's vector: 16 bytes of the narrowest type."""
    return 16 // min(BY_NAME[type].bytes for type in types)


def copy(type, to, threads=256):
    vec = vector(type, to)
    return row("copy", type, to, TILE_TYPE, threads=threads, unit=threads * vec, vec=vec, to=to, size=BY_NAME[type].bytes,
               to_size=BY_NAME[to].bytes, cost=f"{vec} elements per thread, {threads} threads.")


def move(word, bytes, threads=256, pieces=4):
    """Items are pieces of `bytes` bytes, of any type: tensors that are copied bit by bit."""
    return row("move", "i8", bytes, TILE_BYTES, threads=threads, unit=threads * pieces, pieces=pieces, size=bytes, word=word,
               cost=f"{pieces} pieces per thread, {threads} threads.")


def binary(family, operator, type, other, threads=256):
    vec = vector(type, other)
    return row(family, type, other, TILE_TYPE, threads=threads, unit=threads * vec, template="binary", operator=operator,
               vec=vec, size=BY_NAME[type].bytes, other=other, other_size=BY_NAME[other].bytes,
               cost=f"{vec} elements per thread, {threads} threads.")


def elementwise(family, template, type, threads=256):
    vec = vector(type)
    return row(family, type, threads=threads, unit=threads * vec, template=template, vec=vec, size=BY_NAME[type].bytes,
               cost=f"{vec} elements per thread, {threads} threads.")


def get_rows(type, threads=128):
    """Rows of a block format are decoded by 8; plain ones are read by vectors.  Integers stay integers."""
    vec = 8 if type in BLOCKS else vector(type)
    number, to, missing = ("int32_t", "i32", "-1") if type == "i32" else ("float", "f32", "NAN")
    return row("get_rows", type, threads=threads, unit=threads * vec, vec=vec, size=BY_NAME[type].bytes, number=number,
               to=to, missing=missing, template="get_rows" if type in BLOCKS else "get_rows_plain",
               cost=f"{vec} elements per thread, {threads} threads.")


def set_rows(type, threads=128):
    return elementwise("set_rows", "set_rows", type, threads)


def set_rows_block(type, source, threads=128):
    """The tile is the source's type (f32, number 0, in the rows above).  Eight lanes round a block of 32."""
    t = BY_NAME[type]
    return row("set_rows", type, source, TILE_TYPE, threads=threads, unit=threads * 4, groups=threads // 8, bytes=t.bytes,
               template="set_rows_block", cost=f"8 lanes per block of 32, {threads} threads; reads "
                                               f"{8 * BY_NAME[source].bytes} and writes {8 * t.bytes / t.block:g} bits per "
                                               f"element.")


def rms_norm(threads=256):
    return row("rms_norm", "f32", threads=threads, unit=1, min_blocks=3, warps=threads // 32,
               cost=f"One row per block of {threads} threads; rows up to {4 * threads} are read once.")


def rope(type, threads=128):
    return row("rope", type, threads=threads, unit=2 * threads, cost=f"One pair per thread, {threads} threads.")


def soft_max(mask, threads=256):
    return row("soft_max", "f32", mask, TILE_TYPE, threads=threads, unit=1, min_blocks=4, warps=threads // 32, mask=mask,
               mask_size=BY_NAME[mask].bytes,
               cost=f"One row per block of {threads} threads; rows up to {4 * threads} are read once.")


def attn(type, head, threads=256):
    """`lanes` lanes share a row of V, 8 elements each; a warp reads `subsets` rows at a time."""
    lanes = head // 8
    return row("attn", type, head, TILE_HEAD, threads=threads, unit=1, min_blocks=2, warps=threads // 32, lanes=lanes,
               subsets=32 // lanes,
               cost=f"One query of one head per block; {threads // 32} warps share the keys, 32 at a time.")


# Block formats that values are rounded to.
WRITTEN = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl"]


# ---- the rows ----------------------------------------------------------------------------------------------------

def rows():
    """Every kernel of the library, in the order of the table."""
    out = []

    out += [dequant(type, to)                        for type in BLOCKS for to in FLOATS]
    out += [quantize(type)                           for type in FLOATS]

    # Measured on an H200, weights cold; eight columns of activations fill all 255 registers, hence some spills there.
    #            type    rows in flight, blocks per SM   for n = 1       2       4       8
    MMVQ = [    ("q4_0",                                    (4, 2), (4, 2), (1, 2), (4, 1)),
                ("q4_1",                                    (4, 2), (4, 2), (1, 2), (4, 1)),
                ("q5_0",                                    (4, 2), (4, 2), (1, 2), (4, 1)),
                ("q5_1",                                    (4, 2), (4, 2), (1, 2), (4, 1)),
                ("q8_0",                                    (4, 2), (2, 2), (1, 2), (2, 1)),
                ("q2_K",                                    (4, 2), (2, 2), (2, 1)),
                ("q3_K",                                    (1, 2), (2, 2), (2, 1)),
                ("q4_K",                                    (2, 2), (2, 2), (4, 1), (4, 1)),
                ("q5_K",                                    (1, 2), (1, 2), (2, 1)),
                ("q6_K",                                    (1, 2), (1, 2), (1, 1), (1, 1)),
                ("iq4_nl",                                  (4, 2), (2, 2), (1, 2)),
                ("iq4_xs",                                  (4, 2), (2, 2), (1, 2)),
                ("mxfp4",                                   (4, 2), (2, 2), (1, 2)),
                ("nvfp4",                                   (4, 2), (2, 2), (1, 2)),
                ("tq1_0",                                   (4, 2), (2, 2), (2, 1)),
                ("tq2_0",                                   (4, 2), (4, 2), (2, 1)),
                ("iq1_s",                                   (2, 2), (2, 2), (1, 2)),
                ("iq1_m",                                   (2, 2), (2, 2), (1, 2)),
                ("iq2_xxs",                                 (4, 2), (2, 2), (1, 2)),
                ("iq2_xs",                                  (4, 2), (2, 2), (1, 2)),
                ("iq2_s",                                   (4, 2), (2, 2), (1, 2)),
                ("iq3_xxs",                                 (4, 2), (2, 2), (1, 2)),
                ("iq3_s",                                   (1, 2), (2, 2), (1, 2))]
    out += [mmvq(type, n, *shape)                    for type, *shapes in MMVQ for n, shape in zip((1, 2, 4, 8), shapes)]

    # Rows in a slot for n = 1, 2, and slabs that the copies of MMVQ_MMA are ahead.
    RINGS = [   ("q4_0", (4, 4), 2), ("q4_1", (4, 4), 2), ("q5_0", (4, 4), 2), ("q5_1", (4, 4), 2), ("q8_0", (2, 2), 2),
                ("q2_K", (8, 4), 2), ("q3_K", (4, 4), 2), ("q4_K", (4, 4), 2), ("q5_K", (4, 4), 2), ("q6_K", (2, 2), 2),
                ("iq4_nl", (4, 4), 2), ("iq4_xs", (4, 4), 2), ("mxfp4", (4, 4), 2), ("nvfp4", (4, 4), 2),
                ("tq1_0", (8, 4), 3), ("tq2_0", (8, 4), 3)] + [
                (type, (4 if type in ("iq3_xxs", "iq3_s") else 8, 4), 2 if type in ("iq2_s", "iq3_s") else 3) for type in BOOKED]
    out += [mmvq_ring(type, n, rows)                 for type, slots, _ in RINGS for n, rows in zip((1, 2), slots)]
    out += [mmvq_mma(type, depth)                    for type, _, depth in RINGS]

    #            n, tiles of a warp, warps along n, blocks per SM
    MMQ = [     (16, 1, 2, 1, 2), (64, 2, 4, 2, 2)]
    out += [mmq(type, *shape)                        for type, *_ in MMVQ for shape in MMQ]

    #            type                                    n = 1       2       4       8
    MMVF = [    ("f32",                                     (2, 2), (2, 2), (2, 2), (2, 2)),
                ("f16",                                     (4, 2), (4, 2), (2, 2), (2, 2)),
                ("bf16",                                    (4, 2), (4, 2), (2, 2), (2, 2))]
    out += [mmvf(type, n, *shape)                    for type, *shapes in MMVF for n, shape in zip((1, 2, 4, 8), shapes)]

    out += [mmvf_ring(type, rows)                    for type, rows in (("f32", 2), ("f16", 4), ("bf16", 4))]
    #            n, rows of a tile, threads
    WIDE = [    (2, 4, 544), (4, 4, 544), (8, 8, 288)]
    out += [mmvf_wide(type, *shape)                  for type in FLOATS for shape in WIDE]

    # Rows of the other families come here, each with its template.

    out += [copy(type, to)                           for type in FLOATS for to in FLOATS if type != to]
    out += [move(word, bytes)                        for word, bytes in (("uint4", 16), ("uint2", 8), ("uint32_t", 4),
                                                                         ("uint16_t", 2), ("uint8_t", 1))]
    out += [get_rows(type)                           for type in BLOCKS + FLOATS + ["i32"]]
    out += [set_rows(type)                           for type in FLOATS]
    out += [set_rows_block(type, source)             for type in WRITTEN for source in ("f32", "f16")]
    out += [binary("add", "+", type, other)          for type in FLOATS for other in sorted({type, "f32"})]
    out += [binary("mul", "*", type, other)          for type in FLOATS for other in sorted({type, "f32"})]
    out += [rms_norm()]
    out += [rope(type)                               for type in ("f32", "f16")]
    out += [elementwise("unary", "unary", type)      for type in FLOATS]
    out += [elementwise("glu", "glu_q8", "f32")]
    out += [elementwise("glu", "glu", type)          for type in ("f16", "bf16")]
    out += [soft_max(mask)                           for mask in ("f32", "f16")]
    out += [attn("f16", head)                        for head in (64, 128, 256)]

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

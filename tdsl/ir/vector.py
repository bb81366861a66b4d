"""The vector level: structured code over scalars and short vectors; target-independent operations.

A value has an element type and a number of lanes (1: a scalar). The lowering has already cut
vectors so that every value fits a register of the target: per chunk all values have the same
lanes, and the widest element decides how many. Index arithmetic (bounds, element offsets,
conditions on loop variables) stays `tdsl.ir.kernel.Expr` over Var and Size: int64 in C.
Printed as C by `tdsl.codegen`; semantics of operations are those of `tdsl.ir.kernel` per lane.
"""

from __future__ import annotations

from dataclasses import dataclass

from tdsl.ir.kernel import Expr as Index
from tdsl.ir.types import BOOL, ElemType


@dataclass(frozen=True)
class VType:
    """`lanes` elements. For masks `elem` is BOOL and `bits` the width of the lanes they govern."""

    elem: ElemType
    lanes: int = 1
    bits: int = 0

    @property
    def is_mask(self) -> bool:
        return self.elem == BOOL and self.bits > 0

    def __str__(self) -> str:
        if self.is_mask:
            return f"mask{self.bits}x{self.lanes}"
        return str(self.elem) if self.lanes == 1 else f"{self.elem}x{self.lanes}"


# ---------------------------------------------------------------- values


@dataclass(frozen=True)
class Const:
    """The same constant in every lane."""

    value: int | float | bool
    type: VType


@dataclass(frozen=True)
class Ref:
    """A variable made by Let or Declare."""

    name: str
    type: VType


@dataclass(frozen=True)
class Iota:
    """Lane l holds base + step * l, as int64 lanes (type i64 x lanes); a scalar for 1 lane."""

    base: Index
    step: int
    type: VType


@dataclass(frozen=True)
class Splat:
    """A scalar value in every lane."""

    arg: Value
    type: VType


@dataclass(frozen=True)
class Load:
    """Lane l is element `offset + stride * l` of the buffer (stride 1: contiguous).

    Masked-off lanes are not touched and give 0.
    """

    buffer: str
    offset: Index
    type: VType
    stride: Index | None = None  # None: 1
    mask: Value | None = None


@dataclass(frozen=True)
class Gather:
    """Lane l is element `offset[l]` (i64 lanes). Masked-off lanes are not touched and give 0."""

    buffer: str
    offset: Value
    type: VType
    mask: Value | None = None


@dataclass(frozen=True)
class Op:
    """`op`: those of `tdsl.ir.kernel.OPS`, and "fma": args[0] * args[1] + args[2], one rounding,
    "fnma": args[2] - args[0] * args[1], one rounding. Comparisons give masks; and, or, not take
    masks (scalars: BOOL). min and max carry NaN; "min_strict" and "max_strict" order -0 < +0.
    "exp_strict" and so on, of f32 and f64: elementary functions without fused operations, alike
    on every target. "sin_far" and "cos_far": for large arguments, lane by lane. "scale", inside
    these functions, where the target has it: args[0] * 2^args[1] (whole), rounded once."""

    op: str
    args: tuple[Value, ...]
    type: VType


@dataclass(frozen=True)
class Cast:
    """`mode`: "convert", "saturate" or "bitcast", as `tdsl.ir.kernel.Cast`; lanes stay.

    From a mask to a mask of other `bits` too ("convert").
    """

    mode: str
    arg: Value
    type: VType


@dataclass(frozen=True)
class Choose:
    """Lane-wise `mask ? then : other`; both are evaluated (traps are excluded before)."""

    mask: Value
    then: Value
    other: Value
    type: VType


@dataclass(frozen=True)
class FirstLanes:
    """The mask of lanes l < count (count may be negative or beyond the lanes)."""

    count: Index
    type: VType


@dataclass(frozen=True)
class Condition:
    """A condition on loop variables and sizes as a scalar BOOL or a uniform mask."""

    condition: Index
    type: VType


@dataclass(frozen=True)
class Reduce:
    """All lanes joined by `op` (add, mul, min, max, any, all; tree order) to a scalar."""

    op: str
    arg: Value
    type: VType


@dataclass(frozen=True)
class Repeat:
    """The lanes of a short vector, or of its mask, over and over: lane l is lane l % n of n."""

    arg: Value
    type: VType


@dataclass(frozen=True)
class Join:
    """The lanes of two vectors of one type, one after the other."""

    low: Value
    high: Value
    type: VType


@dataclass(frozen=True)
class Part:
    """Some lanes of a vector, from lane `start` on."""

    arg: Value
    start: int
    type: VType


@dataclass(frozen=True)
class Slide:
    """As many lanes from lane `start` on of two vectors of one type, one behind the other."""

    low: Value
    high: Value
    start: int
    type: VType


@dataclass(frozen=True)
class Dot:
    """Lane l is acc[l] plus the sum of first[g * l + t] * second[g * l + t] for t in 0..g, where
    the operands have g times the lanes.

    Of integers the exact sum, which wraps in the element type of the accumulator. Of floats the
    instruction chooses order and rounding. The operands are ordered: u8 before i8.

    columns: the lanes are a tile of rows and that many columns, one row after the other, and the
    operands hold a group for each row and for each column: lane `columns * r + c` is acc[there]
    plus the sum of first[g * r + t] * second[g * c + t]. 0: no tile.
    """

    acc: Value
    first: Value
    second: Value
    type: VType
    columns: int = 0

    @property
    def group(self) -> int:
        """The products that are added in one lane."""
        rows = self.type.lanes // (self.columns or 1)
        return self.first.type.lanes // rows


@dataclass(frozen=True)
class Column:
    """Lane l is lane `lane` of rows[l]: one column of a small matrix that is transposed."""

    rows: tuple[Value, ...]
    lane: int
    type: VType


Value = (
    Const | Ref | Iota | Splat | Load | Gather | Op | Cast | Choose | FirstLanes | Condition
    | Reduce | Repeat | Join | Part | Slide | Dot | Column
)  # fmt: skip

# ---------------------------------------------------------------- code


LANE = "lane'"  # the variable that stands for the lane in an origin
ROW = "row'"  # and, while a tile of lanes is made, for the row; LANE is the column there
TERM = "term'"  # and for the place in the group of a Dot


@dataclass(frozen=True)
class Origin:
    """Which instances a write stands for: `index` over loop variables and Var(LANE).

    terms: a Dot stands for that many instances in each lane, over Var(TERM); those that run are
    the ones whose operands are both loaded.
    masked: the written value leaves out lanes that do not run: by a choice between the new value
    and the old one or what changes nothing, or for BOOL by `and mask`, `or not mask`.
    count: the terms that stand for instances (None: all those); an operand is 0 at the others.
    lanes: those that stand for instances (None: all), where all are written: to a register that
    is in no memory.
    """

    statement: str
    index: tuple[Index, ...]
    masked: bool = False
    terms: int = 1
    lanes: Value | None = None
    count: Index | None = None


@dataclass(frozen=True)
class Let:
    """A name for a value that is used below; never assigned again."""

    name: str
    value: Value


@dataclass(frozen=True)
class LetIndex:
    """An int64 variable for an index expression used below."""

    name: str
    value: Index


@dataclass(frozen=True)
class Home:
    """Elements of a buffer: the first one, and their distance (None: 1)."""

    buffer: str
    offset: Index
    stride: Index | None = None


@dataclass(frozen=True)
class Declare:
    """A register variable that Assign may change. home: the elements that it stands for, where
    they are in no memory meanwhile: it is neither loaded nor stored."""

    name: str
    type: VType
    value: Value | None = None
    origin: Origin | None = None
    home: Home | None = None


@dataclass(frozen=True)
class Assign:
    name: str
    value: Value
    origin: Origin | None = None


@dataclass(frozen=True)
class Store:
    """Lane l goes to element `offset + stride * l`; masked-off lanes are not touched.

    stream: past the caches, where the target can and the address is a multiple of the vector's
    bytes; aligned: it is one for certain.
    """

    buffer: str
    offset: Index
    value: Value
    stride: Index | None = None  # None: 1
    mask: Value | None = None
    origin: Origin | None = None
    stream: bool = False
    aligned: bool = False


@dataclass(frozen=True)
class Misaligned:
    """An int64 variable: how many elements the element `offset` of a buffer lies behind the last
    address that is a multiple of `bytes`."""

    name: str
    buffer: str
    offset: Index
    bytes: int


@dataclass(frozen=True)
class Prefetch:
    """One hint for each cache line of `count` elements from `offset` on, which need not exist.
    write: they are to be written."""

    buffer: str
    offset: Index
    count: Index
    write: bool = False


@dataclass(frozen=True)
class Fence:
    """What was stored past the caches comes before all that follows."""


@dataclass(frozen=True)
class Scatter:
    """A scalar goes to the element `offset` (an i64 scalar), which data choose."""

    buffer: str
    offset: Value
    value: Value
    origin: Origin | None = None


@dataclass(frozen=True)
class For:
    """`for (int64_t var = lo; var < hi; var += step)`; parallel: an OpenMP loop. fence: each of
    its threads ends with a Fence."""

    var: str
    lo: Index
    hi: Index
    body: Block
    step: int = 1
    parallel: bool = False
    notes: tuple[str, ...] = ()
    fence: bool = False


@dataclass(frozen=True)
class If:
    """`condition`: on loop variables (Index) or a scalar BOOL value."""

    condition: Index | Value
    then: Block
    other: Block | None = None


@dataclass(frozen=True)
class Switch:
    """Runs the block of the case that equals `on`; `default` otherwise (may be empty)."""

    on: Index
    cases: tuple[tuple[int, Block], ...]
    default: Block


@dataclass(frozen=True)
class Comment:
    text: str


@dataclass(frozen=True)
class Block:
    items: tuple[Item, ...]


Item = (
    Let | LetIndex | Declare | Assign | Store | Scatter | For | If | Switch | Comment | Block
    | Misaligned | Prefetch | Fence
)  # fmt: skip


OVER = 64
"""Bytes behind every array that is no argument: a vector load that begins at one of its elements
may go on for so long, whatever is there."""
OWN = ("temp", "scratch", "stack", "prepared")  # the roles of such arrays


@dataclass(frozen=True)
class Buffer:
    """Memory. role: in, const, out, inout (arguments), temp and scratch (workspace), stack, table
    or prepared (made by `NAME_prepare`). per_thread: of a stack or scratch array that every thread
    has of its own, since it is new in the iterations of a parallel loop.

    shape: extents (Index over sizes; constants for stack and table); strides in elements per
    dimension are already inside the offsets. values: of a table, flat. range: what an argument's
    values promise, lo (inclusive) and hi (exclusive): checked on entry. strides: of an argument
    that is not row-major and contiguous, in elements, for the checks on entry; a name is a C
    argument that follows the array. groups, field, layout: as in `kernel.Array`; groups and layout
    are for what is said of it.
    """

    name: str
    elem: ElemType
    shape: tuple[Index, ...]
    role: str
    values: tuple[int | float | bool, ...] | None = None
    align: int | None = None
    range: tuple[Index, Index] | None = None
    strides: tuple[Index | str, ...] | None = None
    groups: tuple[int, ...] = ()
    field: tuple[str, int] | None = None
    layout: tuple[tuple[str, ...], tuple[Index, ...]] | None = None
    per_thread: bool = False

    @property
    def free_strides(self) -> tuple[str, ...]:
        """Names of the strides that the caller gives."""
        return tuple(s for s in self.strides or () if isinstance(s, str))


@dataclass(frozen=True)
class Function:
    """One kernel, ready to be printed. Sizes and argument buffers in declaration order.

    assumptions: conditions on sizes, checked on entry. notes: the schedule's text, shown as a
    comment above the function.

    Functions of one name are variants of one entry: the first one whose `condition` on sizes holds
    runs (None always does). variant: the name of its schedule; "" is the program's own order.
    prepare: what `NAME_prepare` runs once for many calls. It alone writes the buffers of role
    prepared, reads those, const arguments and tables, and asks for no sizes but `const_sizes`,
    which the shapes of const arguments determine.
    """

    name: str
    sizes: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    assumptions: tuple[Index, ...]
    body: Block
    notes: tuple[str, ...] = ()
    variant: str = ""
    condition: Index | None = None
    prepare: Block | None = None
    const_sizes: tuple[str, ...] = ()

    @property
    def arguments(self) -> tuple[Buffer, ...]:
        """The buffers that a caller gives, in order."""
        return tuple(b for b in self.buffers if b.role in ("in", "const", "out", "inout"))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All code, in the order in which it runs."""
        return (self.body,) if self.prepare is None else (self.prepare, self.body)

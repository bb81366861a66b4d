"""From a scheduled program to the vector level: the passes in their order."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tdsl.diagnostics import IllegalSchedule
from tdsl.ir import vector
from tdsl.ir.loops import Block, For
from tdsl.ir.verify_vector import verify
from tdsl.lower.broadcasts import by_lanes
from tdsl.lower.builder import Names
from tdsl.lower.context import Context
from tdsl.lower.expand import Expander
from tdsl.lower.fold import Folder, sums_of_constants
from tdsl.lower.lanes import widest_bytes
from tdsl.lower.memory import buffers, place, stored_type
from tdsl.lower.offsets import relative
from tdsl.lower.partition import partition
from tdsl.lower.registers import CannotKeep
from tdsl.lower.reuse import defined, share
from tdsl.lower.rows import Rows
from tdsl.lower.slides import slid
from tdsl.lower.specialize import Specializer
from tdsl.lower.storage import Stored
from tdsl.lower.streams import plain, streamed
from tdsl.lower.values import Numerics
from tdsl.polyhedral.astgen import generate
from tdsl.polyhedral.borders import split_borders
from tdsl.polyhedral.dims import CannotScan
from tdsl.polyhedral.leaves import Code, Sequence_, points
from tdsl.polyhedral.prepared import const_sizes, prepared_program, with_inits
from tdsl.polyhedral.program import Program
from tdsl.polyhedral.registers import keep_accumulators
from tdsl.polyhedral.tree import Node
from tdsl.targets.target import Target


@dataclass(frozen=True)
class Lowered:
    """What each level was, for `tdsl show` and for validation.

    `program`, `tree`: with the copies that stages make and the first terms of reductions;
    `loops`: as isl made them; `versions`: with the versions of blocks chosen. `folded`: the
    function with the constants of reassociated sums folded, where there are some.
    """

    program: Program
    tree: Node
    loops: Block
    versions: Block
    function: vector.Function
    folded: vector.Function | None = None

    @property
    def final(self) -> vector.Function:
        """The function that is printed."""
        return self.folded or self.function


def lower(
    stored: Stored,
    target: Target,
    *,
    strict_fp: bool = False,
    notes: tuple[str, ...] = (),
    reassociate: frozenset[str] = frozenset(),
) -> Lowered:
    """Raises IllegalSchedule where what is to stay in registers has no fixed ones."""
    program = stored.program
    asked = frozenset(r.array for r in stored.kept)
    once, each = split_prepared(program, stored.code)
    seen = program if once is None else prepared_program(program)
    first: vector.Block | None = None
    none: frozenset[str] = frozenset()
    nest = versions = Block(())
    try:
        if once is not None:
            nest, versions, first = _kept(seen, once, target, strict_fp, asked, none)
        loops, chosen, body = _kept(program, each, target, strict_fp, asked, stored.streams)
    except CannotKeep as error:
        span = next((r.span for r in stored.kept if r.array == error.array), None)
        raise IllegalSchedule.at(
            span, f"{error.array} cannot stay in registers: {error.reason}"
        ) from None
    function = vector.Function(
        program.kernel.name,
        program.kernel.sizes,
        tuple(buffers(program.kernel, program.arrays.values(), stored.of_threads)),
        program.kernel.assumptions,
        _finished(body, program, target, stored.streams),
        (*notes, *plain(stored.streams, target)),
        prepare=None if first is None else _finished(first, seen, target, none),
        const_sizes=tuple(s for s in program.kernel.sizes if s in const_sizes(program.kernel)),
    )
    verify(function, target)
    folded: vector.Function | None = None
    sums = sums_of_constants(program, reassociate)
    if sums and not strict_fp:
        folder = Folder(sums, target.has_fma)
        folded = replace(
            function,
            body=_finished(body, program, target, stored.streams, folder),
            prepare=None if first is None else _finished(first, seen, target, none, folder),
        )
        verify(folded, target)
    nest, versions = Block(nest.items + loops.items), Block(versions.items + chosen.items)
    return Lowered(program, stored.tree, nest, versions, function, folded)


def split_prepared(program: Program, code: Code) -> tuple[Code | None, Code]:
    """The code of `NAME_prepare`, if there is any, and that of each call."""
    if not program.prepared:
        return None, code
    names = with_inits(program, program.prepared)
    children = code.children if isinstance(code, Sequence_) else (code,)
    once = [c for c in children if {p.statement for p in points(c)} <= names]
    each = children[len(once) :]
    assert not any(p.statement in names for c in each for p in points(c)), "prepared too late"
    assert each, "nothing is left for the calls"
    return Sequence_(tuple(once)), Sequence_(each)


def _kept(
    program: Program,
    code: Code,
    target: Target,
    strict_fp: bool,
    without: frozenset[str],
    streams: frozenset[str],
) -> tuple[Block, Block, vector.Block]:
    """With accumulators in registers, but for those that turn out to have no fixed ones."""
    rows = _rows(program, target, streams)
    nest = scan(program, keep_accumulators(program, code, without))
    try:
        versions = _versions(program, nest, target, rows)
        return nest, versions, _expanded(program, code, versions, target, strict_fp, rows)
    except CannotKeep as error:
        if error.array in without:
            raise
        return _kept(program, code, target, strict_fp, without | {error.array}, streams)


def _rows(program: Program, target: Target, streams: frozenset[str]) -> Rows:
    places = {name: place(array) for name, array in program.arrays.items()}
    return Rows(program, places, target, streams)


def scan(program: Program, code: Code) -> Block:
    """isl's loops; what cannot be lanes or copies is refused."""
    try:
        return generate(program, code)
    except CannotScan as error:
        span = program.statements[error.statement].span
        raise IllegalSchedule.at(
            span,
            f"loop {error.loop} of {error.statement} has no constant extent: it cannot be "
            "written out as copies or lanes",
            help=f"split it first: split {error.statement}.{error.loop} by 8 -> o, i",
        ) from None


def _versions(program: Program, nest: Block, target: Target, rows: Rows) -> Block:
    def lanes_of(statement: str) -> int:
        stmt = program.statements[statement]
        elem = stored_type(program.arrays[stmt.write.array].type)
        return max(1, target.vector_bytes // widest_bytes(stmt, elem.bytes, None))

    def whole(loop: For) -> bool:
        return rows.of_loop(loop) is not None

    return Specializer(lanes_of, whole).block(split_borders(program, nest, whole), frozenset())


def _expanded(
    program: Program,
    code: Code,
    nest: Block,
    target: Target,
    strict_fp: bool,
    rows: Rows,
) -> vector.Block:
    written = {program.statements[p.statement].write.array for p in points(code)}
    context = Context(
        program,
        rows.places,
        Numerics(target.has_fma and not strict_fp, strict_fp),
        target,
        frozenset(program.arrays) - written,
        rows,
    )
    return Expander(context).function(nest, _taken(program))


def _taken(program: Program) -> frozenset[str]:
    return frozenset(program.arrays) | frozenset(program.kernel.sizes)


def _finished(
    body: vector.Block,
    program: Program,
    target: Target,
    streams: frozenset[str],
    folder: Folder | None = None,
) -> vector.Block:
    """The passes on straight-line code, behind the expansion."""
    taken = _taken(program)
    if folder is not None:
        body = folder.fold(body, Names(taken | defined(body.items)))
    shared = share(body, Names(taken | defined(body.items)))
    shared = by_lanes(shared, target)
    shared = slid(shared, target)
    based = relative(shared, Names(taken | defined(shared.items)))
    return streamed(partition(based), program, streams)

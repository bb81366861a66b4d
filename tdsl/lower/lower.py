"""From a scheduled program to the vector level: the passes in their order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tdsl.diagnostics import IllegalSchedule
from tdsl.ir import loops, vector
from tdsl.ir.verify_vector import verify
from tdsl.lower.builder import Names
from tdsl.lower.expand import Expander
from tdsl.lower.lanes import widest_bytes
from tdsl.lower.memory import buffer, place, stored_type
from tdsl.lower.registers import CannotKeep
from tdsl.lower.reuse import defined, share
from tdsl.lower.specialize import Specializer
from tdsl.lower.values import Numerics
from tdsl.polyhedral.astgen import CannotScan, generate
from tdsl.polyhedral.inits import with_inits
from tdsl.polyhedral.leaves import Code, sink
from tdsl.polyhedral.program import Program
from tdsl.polyhedral.registers import keep_accumulators
from tdsl.polyhedral.tree import Node
from tdsl.targets.target import Target


@dataclass(frozen=True)
class Lowered:
    """What each level was, for `tdsl show`."""

    tree: Node
    loops: loops.Block
    function: vector.Function


def lower(
    program: Program,
    tree: Node,
    target: Target,
    *,
    strict_fp: bool = False,
    notes: tuple[str, ...] = (),
    inspect: Callable[[Program, Node, loops.Block], None] | None = None,
) -> Lowered:
    """`tree` is a finished schedule without first terms. `inspect` sees the loops before copies
    and lanes are written out (the validation of the driver)."""
    lanes = bool(target.widths)
    placed = with_inits(program, tree)
    code = sink(placed, lanes=lanes)
    nest, body = _kept(program, code, target, strict_fp, frozenset())
    if inspect is not None:
        inspect(program, placed, nest)
    function = vector.Function(
        program.kernel.name,
        program.kernel.sizes,
        tuple(buffer(a) for a in program.arrays.values()),
        program.kernel.assumptions,
        body,
        notes,
    )
    verify(function, target)
    return Lowered(placed, nest, function)


def _kept(
    program: Program, code: Code, target: Target, strict_fp: bool, without: frozenset[str]
) -> tuple[loops.Block, vector.Block]:
    """With accumulators in registers, but for those that turn out to have no fixed ones."""
    nest = scan(program, keep_accumulators(program, code, without))
    try:
        return nest, _expanded(program, nest, target, strict_fp)
    except CannotKeep as error:
        if error.array in without:
            raise
        return _kept(program, code, target, strict_fp, without | {error.array})


def scan(program: Program, code: Code) -> loops.Block:
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


def _expanded(program: Program, nest: loops.Block, target: Target, strict_fp: bool) -> vector.Block:
    def lanes_of(statement: str) -> int:
        stmt = program.statements[statement]
        elem = stored_type(program.arrays[stmt.write.array].type)
        return max(1, target.vector_bytes // widest_bytes(stmt, elem.bytes, frozenset()))

    special = Specializer(lanes_of).block(nest, frozenset())
    written = {s.write.array for s in program.statements.values()}
    expander = Expander(
        program,
        {name: place(array) for name, array in program.arrays.items()},
        Numerics(target.has_fma and not strict_fp, strict_fp),
        target,
        frozenset(program.arrays) - written,
    )
    taken = frozenset(program.arrays) | frozenset(program.kernel.sizes)
    body = expander.function(special, taken)
    return share(body, Names(taken | defined(body.items)))

"""`factor S.L -> P`: a reduction in two stages.

before: S: C[i] += x[i, k], under for i { for ko { for ki } }
after   `factor S.ko -> P`:
        P.init: P[i, ko] = 0   P: P[i, ko] += x[i, k], under for i { for ko { for ki } }
        S: C[i] += P[i, ko],   under for i { for ko }

P's loops are a copy of S's own; S loses those over the other indices that it reduces. Both run
where S ran, P first, so that nothing else sees the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import islpy as isl

from tdsl.ir.index import add, const, maximum, simplify, sub
from tdsl.ir.kernel import Array, Const, Expr, Read, Size, Var, walk
from tdsl.polyhedral.affine import set_space
from tdsl.polyhedral.blocks import number
from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.edit import EditError, find, sequence
from tdsl.polyhedral.extent import UNBOUNDED
from tdsl.polyhedral.from_isl import from_pw_aff
from tdsl.polyhedral.inits import is_reduction_loop
from tdsl.polyhedral.parts import selecting
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Access, Program, Stmt, free_array, free_statement
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq, loops_of, statements

IN, OUT, SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set
OPS = ("add", "sub", "mul", "min", "max", "any", "all")


@dataclass(frozen=True)
class _Stages:
    """What both statements are made from.

    free: positions of S's indices that are not reduced; level: S's coordinate at L; full: S's
    instance -> that of P, which has L's coordinate as a further index; short: P's -> S's new one.
    """

    program: Program
    old: Stmt
    free: tuple[int, ...]
    level: isl.PwAff
    name: str
    index: str
    full: isl.Map
    short: isl.Map
    lows: tuple[isl.PwAff, ...]
    extents: tuple[Expr, ...]
    elements: isl.Set

    @property
    def indices(self) -> tuple[str, ...]:
        """Of the short S: the free ones and L's coordinate."""
        return (*(self.old.indices[k] for k in self.free), self.index)

    def to_partial(self, domain: isl.Set) -> Access:
        """Instances that have the short S's indices among theirs, each with its element of P."""
        count = domain.dim(SET)
        columns = [*self.free, count - 1] if count > len(self.indices) else range(count)
        local = isl.LocalSpace.from_space(domain.get_space())
        result = isl.Map.from_domain(domain)
        subscript = []
        sizes = [Size(s) for s in self.program.params]
        for column, low, name in zip(columns, self.lows, self.indices, strict=True):
            x = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, SET, column))
            part = x.sub(low.insert_domain(domain.get_space()))
            result = result.flat_range_product(part.as_map())
            subscript.append(simplify(sub(Var(name), from_pw_aff(low, (), sizes))))
        result = result.set_tuple_name(OUT, self.elements.get_tuple_name())
        return Access(self.name, coalesced(result), tuple(subscript), True, self.old.write.span)


@bounded("the two stages of a reduction")
def factor(
    program: Program, tree: Node, at: tuple[str, str], name: str, identity: Const, note: str
) -> tuple[Program, Node]:
    """The program with P and the shorter S, and its tree (without first terms).

    `identity`: what P starts from.
    """
    old = program.statements[at[0]]
    loop = find(tree, *at)
    around = loops_of(tree, old.name)
    reduced = _reduced(old, loop, around)
    stages = _stages(program, old, loop, around, reduced, name)
    partial, total = _partial(stages, reduced), _total(stages)
    first = replace(
        total,
        name=f"{name}.init",
        tuple_name=free_statement(program, 1),
        domain=total.domain.set_tuple_name(free_statement(program, 1)),
        reads=(),
        op="define",
        value=identity,
        reduction=(),
        init_of=name,
    )
    first = replace(first, write=stages.to_partial(first.domain))
    made: dict[str, Stmt] = {}
    for key, stmt in program.statements.items():
        if key in (old.name, f"{old.name}.init"):
            made.setdefault(first.name, first)
            made.setdefault(name, partial)
        made[key] = total if key == old.name else stmt
    kind = program.arrays[old.write.array].type
    array = Array(name, kind, stages.extents, "temp", span=old.span)
    result = replace(
        program,
        statements=made,
        arrays={**program.arrays, name: array},
        extents={**program.extents, name: stages.elements},
    )
    return result, _placed(tree, stages, total, replace(old, reduction=reduced), loop, note)


def _reduced(stmt: Stmt, loop: Loop, around: Sequence[Loop]) -> tuple[str, ...]:
    """The reduced indices, where the reduction can be taken apart at the loop."""
    if stmt.op not in OPS:
        raise EditError(f"{stmt.name} is no reduction: there is nothing to factor")
    if any(a.array == stmt.write.array for a in stmt.reads):
        raise EditError(f"{stmt.name} reads {stmt.write.array}, which it updates")
    if not stmt.write.exact:
        raise EditError(f"data decide which element {stmt.name} updates")
    named = {e.name for part in stmt.write.subscript for e in walk(part) if isinstance(e, Var)}
    reduced = stmt.reduction or tuple(i for i in stmt.indices if i not in named)
    if not reduced:
        raise EditError(f"{stmt.name} reduces over no index")
    with_terms = replace(stmt, reduction=reduced)
    if not is_reduction_loop(loop, with_terms):
        raise EditError(
            f"{loop.name} is no loop of a reduction: {stmt.name} reduces over {', '.join(reduced)}"
        )
    free = [k for k, i in enumerate(stmt.indices) if i not in reduced]
    if any(loop.coords[stmt.name].involves_dims(IN, k, 1) for k in free):
        raise EditError(f"{loop.name} runs over left-hand indices too")
    for other in around:
        coordinate = other.coords[stmt.name]
        if is_reduction_loop(other, with_terms) and any(
            coordinate.involves_dims(IN, k, 1) for k in free
        ):
            raise EditError(f"{other.name} runs over left-hand and reduced indices at once")
    if sum(is_reduction_loop(other, with_terms) for other in around) < 2:
        raise EditError(
            f"{loop.name} is the only loop of the reduction {stmt.name}: split it by the length "
            "of a block first"
        )
    return reduced


def _level(loop: Loop, old: Stmt, around: Sequence[Loop]) -> isl.PwAff:
    """What tells partial results apart: the coordinate; of the inner loop of a split, the place
    in the block, so that all blocks share them."""
    coordinate = loop.coords[old.name]
    info = loop.inner_of
    block = [x for x in around if info is not None and x.name == info.outer]
    if info is None or not block:
        return coordinate
    if info.tail.balanced:
        raise EditError(f"the blocks of {loop.name} are balanced: they share no places")
    return coordinate.sub(block[0].coords[old.name].scale_val(isl.Val(info.factor)))


def _stages(
    program: Program,
    old: Stmt,
    loop: Loop,
    around: Sequence[Loop],
    reduced: Sequence[str],
    name: str,
) -> _Stages:
    free = tuple(k for k, i in enumerate(old.indices) if i not in reduced)
    index = loop.name
    while index in old.indices:
        index += "_"
    level = _level(loop, old, around)
    tuple_name = free_statement(program)
    full = isl.Map.identity(old.domain.get_space().map_from_set()).reset_tuple_id(OUT)
    full = full.flat_range_product(level.as_map()).set_tuple_name(OUT, tuple_name)
    instances = old.domain.apply(full)
    short = isl.Map.identity(instances.get_space().map_from_set()).reset_tuple_id(OUT)
    for k in reversed(range(len(old.indices))):
        if k not in free:
            short = short.project_out(OUT, k, 1)
    short = short.set_tuple_name(OUT, old.tuple_name)
    values = instances.apply(short).intersect_params(program.context)
    sizes = [Size(s) for s in program.params]
    box = isl.Set.universe(set_space(program.params, len(free) + 1, free_array(program)))
    local = isl.LocalSpace.from_space(box.get_space())
    lows, extents = [], []
    for d in range(len(free) + 1):
        low, high = _ends(values, d, program)
        length = add(sub(from_pw_aff(high, (), sizes), from_pw_aff(low, (), sizes)), const(1))
        x = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, SET, d))
        last = high.sub(low).insert_domain(box.get_space())
        box = box.lower_bound_val(SET, d, isl.Val(0)).intersect(x.le_set(last))
        lows.append(low)
        extents.append(simplify(maximum(const(0), length)))
    return _Stages(
        program, old, free, level, name, index, full, short, tuple(lows), tuple(extents), box
    )


def _ends(values: isl.Set, dim: int, program: Program) -> tuple[isl.PwAff, isl.PwAff]:
    """The least and greatest value of a dimension; a constant for the greatest where one holds
    for all sizes, as for the places in a block."""
    low = coalesced(values.dim_min(dim)).gist(program.context)
    pieces = low.get_pieces()
    if len(pieces) != 1:
        raise EditError("the first of the partial results is no single expression of sizes")
    # Outside its piece there are no values: the expression may be used everywhere.
    low = isl.PwAff.from_aff(pieces[0][1])
    high = coalesced(values.dim_max(dim))
    most = high.max_val()
    if most.is_int() and most.to_python() < UNBOUNDED:
        return low, number(low, int(most.to_python()))
    return low, high.gist(program.context)


# ---------------------------------------------------------------- statements


def _partial(stages: _Stages, reduced: Sequence[str]) -> Stmt:
    """P: all instances of S, each into its element of P."""
    old = stages.old
    domain = old.domain.apply(stages.full)
    return replace(
        old,
        name=stages.name,
        tuple_name=domain.get_tuple_name(),
        indices=(*old.indices, stages.index),
        domain=domain,
        write=stages.to_partial(domain),
        reads=tuple(replace(a, map=a.map.apply_domain(stages.full)) for a in old.reads),
        op="add" if old.op == "sub" else old.op,  # what S subtracts is added up first
        reduction=tuple(reduced),
        init_of=None,
    )


def _total(stages: _Stages) -> Stmt:
    """S over L alone."""
    old = stages.old
    change = stages.full.apply_range(stages.short)
    domain = coalesced(old.domain.apply(change))
    read = stages.to_partial(domain)
    write = replace(old.write, map=coalesced(old.write.map.apply_domain(change)))
    kind = stages.program.arrays[old.write.array].type
    return replace(
        old,
        indices=stages.indices,
        domain=domain,
        write=write,
        reads=(read,),
        value=Read(stages.name, read.subscript, kind, span=old.span),
        reduction=(stages.index,),
    )


# ---------------------------------------------------------------- the tree


def _placed(tree: Node, stages: _Stages, total: Stmt, old: Stmt, level: Loop, note: str) -> Node:
    """Both nests where S's was: under the loops that S shares with others."""
    full_space = stages.full.range().get_space()
    old_space = old.domain.get_space()
    drop = selecting(full_space, old_space, {k: k for k in range(len(old.indices))})
    zeros = selecting(
        total.domain.get_space(), old_space, {k: p for p, k in enumerate(stages.free)}
    )

    def last(space: isl.Space) -> isl.PwAff:
        local = isl.LocalSpace.from_space(space)
        return isl.PwAff.from_aff(isl.Aff.var_on_domain(local, SET, space.dim(SET) - 1))

    def coords(loop: Loop) -> tuple[isl.PwAff, isl.PwAff | None]:
        """For P and for the short S, which has no loop here (None) over other terms."""
        if loop is level:
            return last(full_space), last(total.domain.get_space())
        mine = loop.coords[old.name]
        reducing = is_reduction_loop(loop, old)
        return mine.pullback_multi_aff(drop), None if reducing else mine.pullback_multi_aff(zeros)

    def nest(node: Node, partial: bool) -> Node:
        match node:
            case Leaf():
                return Leaf(stages.name if partial else old.name)
            case Seq():
                raise AssertionError("one statement makes no sequence")
            case Loop():
                body = nest(node.body, partial)
                first, second = coords(node)
                if partial:
                    kept = node if node is not level else replace(node, inner_of=None)
                    notes = (*node.notes, note) if node is level else node.notes
                    return replace(kept, coords={stages.name: first}, body=body, notes=notes)
                if second is None:
                    return body
                clean = replace(node, inner_of=None, outer_of=None, notes=(note,))
                return replace(clean, coords={old.name: second}, body=body)

    def edit(node: Node) -> Node:
        if statements(node) == (old.name,):
            return sequence([nest(node, True), nest(node, False)])
        match node:
            case Seq(children):
                return sequence(edit(c) if old.name in statements(c) else c for c in children)
            case Loop():
                first, second = coords(node)
                if second is None:
                    others = [s for s in statements(node) if s != old.name]
                    raise EditError(
                        f"{old.name} shares {node.name}, over which it reduces, with {others[0]}: "
                        "distribute it first"
                    )
                both = {**node.coords, stages.name: first, old.name: second}
                return replace(node, coords=both, body=edit(node.body))
            case _:
                return node

    return edit(tree)

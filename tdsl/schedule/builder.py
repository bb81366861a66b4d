"""The Python `Schedule`: methods of the directives' names that make the same values.

    s.tile("i", "j", by=(6, 32), into=("io", "jo", "ii", "ji"))
    s.vectorize("ji")
    print(s)

Each directive is tried on a tree at once; a refused one leaves the schedule as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import SupportsIndex

from tdsl.diagnostics import ParseError
from tdsl.polyhedral.program import Dependence, Program
from tdsl.polyhedral.tree import Node
from tdsl.schedule import directives as d
from tdsl.schedule.apply import after, begin, complete
from tdsl.schedule.literal import number
from tdsl.schedule.resolve import Resolved, Step, resolve
from tdsl.schedule.state import Scheduled, State
from tdsl.schedule.target import Target
from tdsl.syntax import tree as surface
from tdsl.syntax.formatter import print_file
from tdsl.syntax.parser import parse_directives, parse_expr
from tdsl.syntax.print_directive import print_directive
from tdsl.syntax.tree import Call, Expr, Recipe

Value = SupportsIndex | str | Expr
"""An integer, an expression as text ("2 * lanes(f32)"), or a value of the surface tree."""


class Directives:
    """The methods; what becomes of a directive is up to `add`."""

    def __init__(self, add: Callable[[d.Directive], None]) -> None:
        self._add = add

    def add_text(self, text: str) -> None:
        """Directives as text."""
        for directive in parse_directives(text, "<schedule>"):
            self._add(directive)

    def split(
        self, *loops: str, by: Value, into: Sequence[str], tail: str | Sequence[str] = ()
    ) -> None:
        outer, inner = _names(into, 2)
        self._add(d.Split(_refs(loops), _expr(by), outer, inner, _words(tail)))

    def tile(
        self,
        *loops: str,
        by: Sequence[Value],
        into: Sequence[str],
        tail: str | Sequence[str] = (),
    ) -> None:
        if isinstance(by, str) or not isinstance(by, Sequence):
            raise TypeError(f"tile takes a factor for each loop, as in by=(8, 8), got by={by!r}")
        factors = tuple(_expr(f) for f in by)
        self._add(d.Tile(_refs(loops), factors, _names(into), _words(tail)))

    def reorder(self, *loops: str) -> None:
        self._add(d.Reorder(_refs(loops)))

    def collapse(self, *loops: str, into: str) -> None:
        self._add(d.Collapse(_refs(loops), _name(into)))

    def fuse(self, *loops: str, into: str) -> None:
        self._add(d.Fuse(_refs(loops), _name(into)))

    def distribute(self, loop: str) -> None:
        self._add(d.Distribute(_ref(loop)))

    def skew(self, loop: str, by: Value) -> None:
        self._add(d.Skew(_ref(loop), _expr(by)))

    def shift(self, loop: str, by: Value) -> None:
        self._add(d.Shift(_ref(loop), _expr(by)))

    def reverse(self, *loops: str) -> None:
        self._add(d.Reverse(_refs(loops)))

    def wavefront(self, first: str, second: str, into: Sequence[str]) -> None:
        outer, inner = _names(into, 2)
        self._add(d.Wavefront(_ref(first), _ref(second), outer, inner))

    def extend(self, statement: str, name: str, value: Value) -> None:
        """`extend S by n = e`: `s.extend("S", "n", 0)`."""
        self._add(d.Extend(statement, name, _expr(value)))

    def sequence(self, *statements: str) -> None:
        self._add(d.Sequence(statements))

    def peel(self, loop: str, first: Value | None = None, last: Value | None = None) -> None:
        early = None if first is None else _expr(first)
        late = None if last is None else _expr(last)
        self._add(d.Peel(_ref(loop), early, late))

    def factor(self, loop: str, into: str) -> None:
        self._add(d.Factor(_ref(loop), _name(into)))

    def order(self, times: Mapping[str, str], into: Sequence[str] = ()) -> None:
        """All statements at once: `s.order({"S": "[i, j] -> [0, j, i]"})`."""
        text = "; ".join(f"{name}{time}" for name, time in times.items())
        names = f" -> {', '.join(into)}" if into else ""
        self.add_text(f"order {{ {text} }}{names}")

    def vectorize(self, *loops: str, by: Value | None = None) -> None:
        self._add(d.Vectorize(_refs(loops), None if by is None else _expr(by)))

    def unroll(self, *loops: str, by: Value | None = None, plain: bool = False) -> None:
        self._add(d.Unroll(_refs(loops), None if by is None else _expr(by), plain))

    def parallel(self, *loops: str) -> None:
        self._add(d.Parallel(_refs(loops)))

    def reassociate(self, *statements: str) -> None:
        self._add(d.Reassociate(tuple(map(_name, statements))))

    def layout(self, array: str, indices: Sequence[str], storage: Sequence[Value]) -> None:
        """`layout("x", ("n", "c"), ("n", "c // 16", "c % 16"))`."""
        stored = _layout(storage)
        assert stored is not None
        self._add(d.Layout(_name(array), _names(indices), stored))

    def dot(self, *loops: str) -> None:
        self._add(d.Dot(_refs(loops)))

    def compute(self, statement: str, at: str, memory: str | None = None) -> None:
        """`at`: a loop, "root" or "prepare"."""
        place = at if at in ("root", "prepare") else _ref(at)
        self._add(d.Compute(_name(statement), place, memory))

    def finish(self, statement: str, at: str) -> None:
        self._add(d.Finish(_name(statement), _ref(at)))

    def inline(self, *statements: str) -> None:
        self._add(d.Inline(tuple(map(_name, statements))))

    def store(
        self,
        statement: str,
        at: str | None = None,
        memory: str | None = None,
        *,
        fold: Mapping[str, Value] | None = None,
        layout: Sequence[Value] | None = None,
        inside: str | None = None,
    ) -> None:
        """One of `at` a loop or "root" (with `memory` and `fold`), `layout`, `inside` an array."""
        if [at, layout, inside].count(None) != 2 or (at is None and (memory or fold)):
            raise TypeError("store takes one of at= (with memory and fold), layout= and inside=")
        where = at if at in (None, "root") else _ref(at)
        rings = tuple((_name(n), _expr(length)) for n, length in (fold or {}).items())
        name = _name(statement)
        self._add(d.Store(name, where, memory, rings, _layout(layout), inside))

    def stage(
        self,
        array: str,
        at: str,
        memory: str | None = None,
        *,
        layout: Sequence[Value] | None = None,
    ) -> None:
        owner, _, name = _name(array).rpartition(".")
        self._add(d.Stage(d.ArrayRef(name, owner or None), _ref(at), _layout(layout), memory))

    def pack(
        self,
        array: str,
        at: str,
        layout: Sequence[Value],
        *,
        into: str | None = None,
        dims: Sequence[str] = (),
        type: str | None = None,
        memory: str | None = None,
    ) -> None:
        """`at`: a loop, "root" or "prepare"; `layout`: loops, or expressions of `dims`."""
        if type is not None and into is None:
            raise TypeError("a pack with type= has a name too: into=")
        owner, _, name = _name(array).rpartition(".")
        named = tuple(_expr(x) for x in _names(dims))
        place = at if at in ("root", "prepare") else _ref(at)
        storage = _layout(layout)
        assert storage is not None
        copied = d.ArrayRef(name, owner or None, named)
        self._add(d.Pack(copied, place, storage, into, type, memory))

    def transpose(self, first: str, second: str) -> None:
        self._add(d.Transpose(_ref(first), _ref(second)))

    def prefetch(self, array: str, at: str, *, ahead: Value | None = None) -> None:
        owner, _, name = _name(array).rpartition(".")
        distance = None if ahead is None else _expr(ahead)
        self._add(d.Prefetch(d.ArrayRef(name, owner or None), _ref(at), distance))

    def stream(self, array: str) -> None:
        self._add(d.Stream(_name(array)))

    def let(self, name: str, value: Value) -> None:
        self._add(d.Let(name, _expr(value)))

    def tune(self, name: str, *values: Value) -> None:
        """A knob: `let name = tune(values...)`."""
        self._add(d.Let(name, Call("tune", tuple(_expr(v) for v in values))))

    def require(self, *conditions: str | Expr) -> None:
        self._add(d.Require(tuple(_expr(c) for c in conditions)))

    def expect(self, *conditions: str | Expr) -> None:
        self._add(d.Expect(tuple(_expr(c) for c in conditions)))

    def use(self, recipe: str, *args: Value, **kwargs: Value) -> None:
        named = tuple((k, _expr(v)) for k, v in kwargs.items())
        self._add(d.Use(recipe, tuple(_expr(a) for a in args), named))


class On(Directives):
    """The methods inside `on S { ... }`; also a `with` block."""

    def __enter__(self) -> On:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class Schedule(Directives):
    """A schedule of one kernel for one target, made directive by directive."""

    def __init__(
        self,
        program: Program,
        target: Target,
        *,
        variant: str | None = None,
        recipes: Mapping[str, Recipe] | None = None,
        lets: Mapping[str, Expr] | None = None,
        knobs: Mapping[str, int] | None = None,
        strict_fp: bool = False,
        known: tuple[Dependence, ...] | None = None,
    ) -> None:
        super().__init__(self.add)
        self.program = program
        self.target = target
        self.variant = variant
        self.strict_fp = strict_fp
        self._recipes = dict(recipes or {})
        self._lets = dict(lets or {})
        self._knobs = dict(knobs or {})
        self._directives: tuple[d.Directive, ...] = ()
        self._start = begin(program, target.lanes, strict_fp=strict_fp, known=known)
        self._resolved = Resolved(())
        self._states: tuple[State, ...] = ()

    @property
    def directives(self) -> tuple[d.Directive, ...]:
        """The values, as the same text would give them."""
        return self._directives

    @property
    def knobs(self) -> Mapping[str, int]:
        """The values of the knobs so far."""
        return self._resolved.knobs

    def on(self, *statements: str) -> On:
        """`s.on("C").vectorize("j")`, or `with s.on("C") as c: ...`."""
        body: list[d.Directive] = []

        def add(directive: d.Directive) -> None:
            block = d.On(statements, (*body, directive))
            # Directives of one block that follow each other stand in one block of the text.
            last = self._directives[-1:]
            joins = bool(body) and last == (d.On(statements, tuple(body)),)
            if joins:
                self._replace((*self._directives[:-1], _placed(block)))
            else:
                body.clear()
                self._replace((*self._directives, _placed(d.On(statements, (directive,)))))
            body.append(directive)

        return On(add)

    def add(self, directive: d.Directive | str) -> None:
        """A directive as a value, or any directives as text."""
        if isinstance(directive, str):
            self._replace((*self._directives, *parse_directives(directive, "<schedule>")))
        elif isinstance(directive, d.Directive):
            self._replace((*self._directives, _placed(directive)))
        else:
            raise TypeError(f"expected directives as text or one as a value, got {directive!r}")

    def _replace(self, directives: tuple[d.Directive, ...]) -> None:
        """Resolve and try; only what is legal is kept."""
        resolved = resolve(
            directives,
            self.target,
            self.program.kernel,
            self._recipes,
            self._knobs,
            self.strict_fp,
            self._lets,
        )
        # A new `require` may change knobs and so what was applied before.
        kept = 0
        for old, new in zip(self._resolved.steps, resolved.steps, strict=False):
            if old != new:
                break
            kept += 1
        states = [self._start, *self._states[:kept]]
        for n, step in enumerate(resolved.steps[kept:], kept):
            states.append(after(states, resolved.steps[:n], step))
        self._directives, self._resolved, self._states = directives, resolved, tuple(states[1:])

    @property
    def tree(self) -> Node:
        """The loops so far."""
        return (self._states[-1] if self._states else self._start).tree

    def complete(self) -> Scheduled:
        """What the compiler goes on with, checked as a whole."""
        steps: tuple[Step, ...] = self._resolved.steps
        trail = [(s.written, state.tree) for s, state in zip(steps, self._states, strict=True)]
        return complete(self._states[-1] if self._states else self._start, trail)

    def __str__(self) -> str:
        """`.tdsl` text, ready to paste."""
        schedule = surface.Schedule(
            self.program.kernel.name, self.variant, (self.target.name,), None, self._directives
        )
        return print_file(surface.File((schedule,))).rstrip("\n")


# ---------------------------------------------------------------- values


def _placed(directive: d.Directive) -> d.Directive:
    """The same directive with places in its own text, for messages."""
    text = print_directive(directive)
    parsed = parse_directives(text, "<schedule>")
    if parsed != (directive,):
        raise ParseError.at(None, f"this is not one directive: {text}")
    return parsed[0]


def _name(value: object) -> str:
    """Callers of this module are Python programs of users: what is no name is said to be none."""
    if not isinstance(value, str):
        raise TypeError(
            f"loops, statements and arrays are named by text, got {value!r}; numbers stand behind "
            "a keyword, as in by=8"
        )
    return value


def _names(values: object, count: int | None = None) -> tuple[str, ...]:
    """New names; a text would be taken apart into its letters."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise TypeError(f'into= takes a sequence of names, as in ("io", "ii"), got {values!r}')
    if count is not None and len(values) != count:
        raise TypeError(f"into= takes {count} names, got {len(values)}")
    return tuple(_name(v) for v in values)


def _ref(loop: str) -> d.LoopRef:
    statement, _, name = _name(loop).rpartition(".")
    return d.LoopRef(statement or None, name)


def _refs(loops: Sequence[str]) -> tuple[d.LoopRef, ...]:
    return tuple(_ref(loop) for loop in loops)


def _layout(storage: Sequence[Value] | None) -> tuple[Expr, ...] | None:
    if isinstance(storage, str):
        raise TypeError(
            f'layout= takes a sequence, as in ("j // 16", "i", "j % 16"), got {storage!r}'
        )
    return None if storage is None else tuple(_expr(e) for e in storage)


def _words(tail: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(tail, str):
        return tuple(w.strip() for w in tail.split(","))
    return tuple(_name(word) for word in tail)


def _expr(value: Value) -> Expr:
    if isinstance(value, str):
        return parse_expr(value, "<schedule>")
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        return number(index(value))
    if not isinstance(value, Expr):
        raise TypeError(
            f'expected an integer, or an expression as text such as "2 * lanes(f32)", got {value!r}'
        )
    return value

"""Words and signs that messages speak of."""

from __future__ import annotations

FILE_ITEMS = (
    "kernel",
    "schedule",
    "recipe",
    "def",
    "combine",
    "record",
    "const",
    "import",
    "graph",
)
FILE_ITEMS += ("select",)

# Every directive, with an example of its use.
EXAMPLES = {
    "split": "split i by 8 -> io, ii tail mask",
    "tile": "tile i, j by 32, 64 -> io, jo, ii, ji",
    "reorder": "reorder k, i, j",
    "collapse": "collapse i, j -> ij",
    "fuse": "fuse S.i, T.i -> i",
    "distribute": "distribute i",
    "skew": "skew j by i",
    "shift": "shift S.i by 1",
    "reverse": "reverse i",
    "wavefront": "wavefront t, i -> front, cell",
    "peel": "peel i first 1",
    "extend": "extend S by i = 0",
    "sequence": "sequence S, T",
    "order": "order { S[i, j] -> [j, i] }",
    "vectorize": "vectorize j by 8",
    "unroll": "unroll i by 4",
    "parallel": "parallel i",
    "dot": "dot k",
    "inline": "inline P",
    "compute": "compute P at C.i in registers",
    "finish": "finish Y at C.i",
    "store": "store P at C.i in stack",
    "stage": "stage A at i in registers",
    "pack": "pack B at k as Bp[k, j]",
    "transpose": "transpose i, j",
    "layout": "layout x[n, c] as [n, c // 16, c % 16]",
    "prefetch": "prefetch A at i ahead 1",
    "stream": "stream C",
    "reassociate": "reassociate S",
    "factor": "factor S.k -> part",
    "expect": "expect spills(S) == 0",
    "let": "let T = tune(32, 64)",
    "require": "require T % 8 == 0",
    "use": "use tile(C, i, j)",
    "on": "on S { vectorize j }",
}
DIRECTIVES = tuple(EXAMPLES)

OPERATORS = frozenset(
    "+ - * / // % & | ^ << >> < <= > >= == != and or".split()  # noqa: SIM905
)
# What an expression can start with.
OPERAND = frozenset(("NUMBER", "NAME", "STRING", "TYPED_NAME", "(", "-", "~", "not"))

ELEMENT_WORDS = frozenset(
    "float double int char void auto var long short unsigned size_t bool const_ "  # noqa: SIM905
    "f64 f32 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64".split()
)

# Words of other languages, and what is written here instead.
ABSENT = {
    "if": "Limit an equation by `where`, or choose a value by `select(condition, a, b)`.",
    "else": "Choose a value by `select(condition, a, b)`.",
    "elif": "Choose a value by `select(condition, a, b)`.",
    "while": "Repeat by `for i in 0..N { ... }`.",
    "return": "Results are `out` arrays, defined by equations; a `def` is one expression.",
    "break": "Limit the loop's range, or the equation by `where`.",
    "lambda": "Write `def f(x) = ...` beside the kernel.",
    "loop": "Repeat by `for i in 0..N { ... }`.",
}

# Characters and signs that begin no token.
STRAY = {
    "&&": "Write `and`.",
    "||": "Write `or`.",
    "!": "Write `not`.",
    "**": "Write `x * x`, or `pow(x, y)`.",
    "++": "Write `x += 1`.",
    "--": "Write `x -= 1`, or a space between two signs.",
    ":=": "Write `=`.",
    "::": "Write `.`.",
    "=>": "Write `->`.",
    "===": "Write `==`.",
    "/*": "Comments start with `#` and end with the line.",
    "...": "A range has two dots: `0..N`.",
    "<>": "Write `!=`.",
    "%%": "Write `%`.",
    "?": "Choose a value by `select(condition, a, b)`.",
    "'": 'Write `"`.',
    "`": 'Write `"`, or nothing around a name.',
    "@": "Write a matrix product as `sum[k](A[i, k] * B[k, j])`.",
    "\\": "Leave it out: a line may end anywhere.",
    "\u201c": 'Write `"`.',
    "\u201d": 'Write `"`.',
    "\u2018": 'Write `"`.',
    "\u2019": 'Write `"`.',
    "\u00d7": "Write `*`.",
    "\u00b7": "Write `*`.",
    "\u00f7": "Write `/`.",
    "\u2212": "Write `-`.",
    "\u2264": "Write `<=`.",
    "\u2265": "Write `>=`.",
    "\u2260": "Write `!=`.",
    "\u2192": "Write `->`.",
    "\u2211": "Write `sum[k](...)`.",
    "\u221e": "Write `inf`.",
    "\u00a0": "This is a no-break space: write a plain one.",
}

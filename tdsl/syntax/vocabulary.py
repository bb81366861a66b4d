"""Words and signs that messages speak of."""

from __future__ import annotations

FILE_ITEMS = tuple(
    "kernel schedule recipe def combine record const import graph select".split()  # noqa: SIM905
)

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

# Names that other schedulers have for directives.
ELSEWHERE = {
    "interchange": "reorder",
    "swap": "reorder",
    "permute": "reorder",
    "strip_mine": "split",
    "block": "tile",
    "simd": "vectorize",
    "jam": "unroll",
    "cache_read": "stage",
    "cache_write": "stage",
    "compute_at": "compute",
    "store_at": "store",
    "compute_inline": "inline",
    "merge": "fuse",
    "fission": "distribute",
}

# The other items, by the word that they begin with.
ITEM_EXAMPLES = {
    "kernel": "kernel f<pad = 1>(N) { ... }",
    "schedule": "schedule f.fast for avx512, neon when N >= 64 { ... }",
    "recipe": "recipe r(P, i, MR = 6) { ... }",
    "def": "def relu(v) = max(v, 0.0)",
    "combine": "combine f(m, z; m2, z2) { identity 0.0, 0.0  give m + m2, z + z2 }",
    "record": "record block { d: f16  q: u8[16] }",
    "import": "import ops",
    "graph": "graph g<N = 1> { in x: f32[N]  out y = relu(x) }",
    "select": "select conv2d { direct when R == 1  winograd otherwise }",
    "let": "let M = N // 2",
    "assume": "assume N >= 1, N % 8 == 0",
    "in": "in x: f32[N]",
    "out": "out y: f32[N]",
    "inout": "inout x: f32[N]",
    "temp": "temp t: f32[N]",
    "const": "const w: f32[3] = [1, 2, 1]",
    "for": "for i in 0..N, j in 0..i { ... }",
    "static": "static for s in 0..4 { ... }",
    "identity": "identity -inf, 0.0",
    "give": "give max(m, m2), z + z2",
}

REDUCTIONS = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin")
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
    "if": "limit an equation by `where`, or choose a value by `select(condition, a, b)`",
    "else": "choose a value by `select(condition, a, b)`",
    "elif": "choose a value by `select(condition, a, b)`",
    "while": "repeat by `for i in 0..N { ... }`",
    "return": "results are `out` arrays, defined by equations; a `def` is one expression",
    "break": "limit the loop's range, or the equation by `where`",
    "lambda": "write `def f(x) = ...` beside the kernel",
    "loop": "repeat by `for i in 0..N { ... }`",
}

# Characters and signs that begin no token.
STRAY = {
    "&&": "write `and`",
    "||": "write `or`",
    "!": "write `not`",
    "**": "write `x * x`, or `pow(x, y)`",
    "++": "write `x += 1`",
    "--": "write `x -= 1`, or a space between two signs",
    ":=": "write `=`",
    "::": "write `.`",
    "=>": "write `->`",
    "===": "write `==`",
    "/*": "comments start with `#` and end with the line",
    "...": "a range has two dots: `0..N`",
    "<>": "write `!=`",
    "%%": "write `%`",
    "?": "choose a value by `select(condition, a, b)`",
    "'": 'write `"`',
    "`": 'write `"`, or nothing around a name',
    "@": "write a matrix product as `sum[k](A[i, k] * B[k, j])`",
    "\\": "leave it out: a line may end anywhere",
    "\u201c": 'write `"`',
    "\u201d": 'write `"`',
    "\u2018": 'write `"`',
    "\u2019": 'write `"`',
    "\u00d7": "write `*`",
    "\u00b7": "write `*`",
    "\u00f7": "write `/`",
    "\u2212": "write `-`",
    "\u2264": "write `<=`",
    "\u2265": "write `>=`",
    "\u2260": "write `!=`",
    "\u2192": "write `->`",
    "\u2211": "write `sum[k](...)`",
    "\u221e": "write `inf`",
    "\u00a0": "this is a no-break space: write a plain one",
}

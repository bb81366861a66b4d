"""Constants keep the width of their type in C."""

from __future__ import annotations

import numpy as np

import tdsl

TEXT = """
kernel wide(N) {
    in x: u64[N]
    out a, b, c: u64[N]
    out d: i64[N]
    a[i] = ~padded(x[2 * i - 1], 1)
    b[i] = padded(x[2 * i - 1], 1) - padded(x[i - 1], 2)
    c[i] = padded(x[2 * i - 1], 4294967295) + padded(x[i - 1], 1)
    d[i] = i64(padded(x[2 * i - 1], 100000)) * i64(padded(x[i - 1], 100000))
}
schedule wide for any { }
"""


def test_unsigned_constants_of_64_bits() -> None:
    # With one element all accesses are known to lie outside: only constants are left.
    wide = tdsl.parse(TEXT, name="wide.tdsl")["wide"].compile("c", sizes={"N": 1})
    a, b, c, d = wide(x=np.array([7], np.uint64))
    assert (int(a[0]), int(b[0]), int(c[0]), int(d[0])) == (2**64 - 2, 2**64 - 1, 2**32, 10**10)

"""Every schedule of `../shared/kernels`, for each target that it names, against the interpreter.

Sizes are symbolic where nothing says otherwise: `BOUND` lists what is bound, and why. `REFUSED`
asks for more than a machine has; `FAILING` does not work yet, and a test there that passes fails.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tdsl
from tdsl.built import GeneratedKernel
from tdsl.diagnostics import IllegalSchedule
from tdsl.syntax import tree
from tdsl.syntax.elaborate import elaborate
from tdsl.syntax.parser import parse
from tdsl.targets.target import TARGETS
from tests.kernels.arrays import arguments

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "kernels"
Sizes = Mapping[str, int]

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the folder ../shared/kernels is not beside the checkout"
)

# Of a block or two and a rest, with every target's lanes.
SIZES: dict[str, Sizes] = {
    "attention": {"B": 1, "H": 2, "L": 19, "E": 20},
    "flash": {"B": 1, "H": 2, "L": 70, "E": 20},
    "rope": {"L": 5, "H": 2, "E": 40},
    "conv2d_nhwc": {"N": 1, "H": 9, "W": 17, "C": 5, "K": 37, "R": 3, "S": 3},
    "conv2d_nchw": {"N": 1, "H": 6, "W": 18, "C": 16, "K": 32, "R": 3, "S": 3},
    "conv2d_grouped": {"N": 1, "H": 6, "W": 18, "G": 2, "CG": 5, "KG": 37, "R": 3, "S": 3},
    "conv_transpose": {"N": 1, "H": 5, "W": 6, "C": 3, "K": 17, "R": 3, "S": 3},
    "depthwise": {"N": 1, "H": 9, "W": 11, "C": 19},
    "gemm": {"M": 13, "N": 70, "K": 19},
    "gemm_blas": {"M": 13, "N": 70, "K": 19},
    "gemm_nt": {"M": 13, "N": 70, "K": 19},
    "gemm_tn": {"M": 13, "N": 70, "K": 19},
    "gemm_const": {"M": 13, "N": 70, "K": 19},
    "batched": {"P": 18, "M": 5, "N": 7, "K": 6},
    "conv_im2col": {"C": 3, "H": 8, "W": 9, "K": 10, "R": 3, "S": 3},
    "argmax": {"M": 5, "N": 37},
    "embedding": {"T": 5, "V": 7, "D": 19},
    "dot_q4_0": {"NB": 5},
    "transpose": {"M": 21, "N": 37},
    "blur": {"H": 11, "W": 40},
    "resize": {"N": 1, "H": 5, "W": 6, "C": 19, "OH": 7, "OW": 4},
    "lstm_cell": {"B": 3, "I": 7, "H": 21},
    "gru_like": {"T": 4, "B": 2, "H": 21},
    "softmax": {"M": 3, "N": 37},
    "layernorm": {"M": 3, "N": 37},
    "rmsnorm": {"M": 3, "N": 37},
    "map": {"N": 37},
    "add_relu": {"N": 37},
    "pointwise_bn": {"P": 13, "C": 9, "K": 37},
    "maxpool": {"N": 1, "H": 9, "W": 11, "C": 19},
    "avgpool": {"N": 1, "H": 9, "W": 11, "C": 19},
    "qconv2d": {"N": 1, "H": 7, "W": 9, "C": 6, "K": 37, "R": 3, "S": 3},
    "qgemm": {"M": 13, "N": 70, "K": 19},
    "bgemm": {"M": 13, "N": 70, "K": 19},
    "winograd": {"N": 1, "H": 10, "W": 18, "C": 5, "K": 19},
}
OF_VARIANT: dict[str, Sizes] = {
    "gemm.row": {"M": 1, "N": 70, "K": 19},
    "conv2d_nhwc.pointwise": {"N": 1, "H": 9, "W": 17, "C": 5, "K": 37, "R": 1, "S": 1},
}


@dataclass(frozen=True)
class Bound:
    """Sizes that are compiled in; () for all."""

    names: tuple[str, ...]
    why: str


WINDOW = Bound(("R", "S"), "the loops over the window are unrolled whole")
QUICK = Bound((), "versions for every rest of symbolic sizes take the C compiler most of a minute")
BOUND = {
    "conv2d_nchw.rows": WINDOW,
    "conv2d_nhwc.direct": Bound((), "spills are counted in the versions that run"),
    "conv_transpose": QUICK,
    "conv_im2col": Bound((), "the loops that it collapses and packs through are constant"),
    "depthwise": QUICK,
    "winograd": QUICK,
    "conv2d_grouped": QUICK,
    "flash": QUICK,
    "qconv2d:neon+i8mm": Bound((), "with symbolic sizes two of its sums are spilled"),
    "gemm.direct": QUICK,
    "gemm.packed": QUICK,
    "gemm.space": QUICK,
    "gemm_nt": QUICK,
    "gemm_tn": QUICK,
    "qgemm": QUICK,
    "pointwise_bn": QUICK,
    "batched": QUICK,
    "batched.wide": Bound(("P",), "P is stored in blocks of 16, which do not tell it"),
    "gru_like": Bound(("T",), "h[0] is there for T >= 1 alone, and the kernel assumes nothing"),
    "resize": Bound(("OH", "OW"), "no argument has them"),
}

# kernel.variant -> what the refusal says, for all its targets or for one (kernel.variant:target).
REFUSED = {
    "conv2d_nchw.rows:avx2": "it takes 28 of the 16 vector registers",
    "conv_im2col.materialised:avx2": "it takes 24 of the 16 vector registers",
    "conv_im2col.implicit:avx2": "it takes 24 of the 16 vector registers",
}

FAILING: dict[str, str] = {}


@dataclass(frozen=True)
class Work:
    """One schedule on one target."""

    path: Path
    kernel: str
    variant: str
    target: str

    @property
    def name(self) -> str:
        return self.kernel if self.variant == self.kernel else f"{self.kernel}.{self.variant}"

    def __str__(self) -> str:
        return f"{self.name}:{self.target}"

    def of(self, table: Mapping[str, Any]) -> Any:
        """What a table says of it, of its variant or of its kernel."""
        names = (str(self), self.name, self.kernel)
        return next((table[n] for n in names if n in table), None)


@cache
def text_of(path: Path) -> str:
    """A file, with the recipes of the others that it uses."""
    text = path.read_text(encoding="utf-8")
    used = set(re.findall(r"^\s*use (\w+)\(", text, re.MULTILINE))
    for name in sorted(used - set(re.findall(r"^recipe (\w+)\(", text, re.MULTILINE))):
        for other in sorted(FOLDER.glob("*.tdsl")):
            found = re.search(
                rf"^recipe {name}\(.*?^\}}\n", other.read_text("utf-8"), re.MULTILINE | re.DOTALL
            )
            if found is not None:
                text = found.group() + "\n" + text
    return text


def works() -> list[Work]:
    """All schedules with all their targets; `any` stands for the vectors of x86 and Arm."""
    found = []
    for path in sorted(FOLDER.glob("*.tdsl")):
        for item in parse(path.read_text(encoding="utf-8"), path.name).items:
            if isinstance(item, tree.Schedule):
                every = ("avx512", "avx2", "neon") if "any" in item.targets else item.targets
                variant = item.variant or item.kernel
                found += [Work(path, item.kernel, variant, t) for t in every]
    return found


def parameters() -> list[Any]:
    result = []
    for work in works():
        marks = [pytest.mark.neon] if work.target.startswith("neon") else []
        why = work.of(FAILING)
        if why is not None:
            marks.append(pytest.mark.xfail(reason=why, strict=True))
        result.append(pytest.param(work, id=str(work), marks=marks))
    return result


def test_all_schedules_are_here() -> None:
    assert len({(w.path, w.kernel, w.variant, w.target.partition("+")[0]) for w in works()}) >= 49
    known = {n for w in works() for n in (str(w), w.name, w.kernel)}
    assert set(SIZES) | set(OF_VARIANT) | set(BOUND) | set(REFUSED) | set(FAILING) <= known
    assert {w.target.partition("+")[0] for w in works()} <= set(TARGETS)


@pytest.mark.parametrize("work", parameters())
def test_values(work: Work) -> None:
    text, name = text_of(work.path), work.path.name
    sizes = work.of(OF_VARIANT) or work.of(SIZES)
    bound = work.of(BOUND)
    chosen = {} if bound is None else {n: sizes[n] for n in bound.names or sizes}
    kernel = tdsl.parse(text, name=name)[work.kernel]
    given = arguments(elaborate(parse(text, name), work.kernel, {}, dict(sizes)))
    want = kernel.reference(**{n: np.copy(v) for n, v in given.items()}, **_free(work, sizes))
    refused = work.of(REFUSED)
    if refused is not None:
        with pytest.raises(IllegalSchedule, match=refused):
            kernel.compile(work.target, schedule=work.variant, sizes=chosen)
        return
    run = kernel.compile(work.target, schedule=work.variant, sizes=chosen)
    assert not isinstance(run, GeneratedKernel)
    got = run(**{n: run.laid_out(n, np.copy(v)) for n, v in given.items()})
    wants = want if isinstance(want, tuple) else (want,)
    gots = got if isinstance(got, tuple) else (got,)
    outs = [a.name for a in elaborate(parse(text, name), work.kernel).arguments if a.role == "out"]
    assert len(wants) == len(gots)
    for array, have, exact in zip(outs or [""] * len(wants), gots, wants, strict=True):
        expected = np.asarray(exact)
        have = run.natural(array, have, expected.shape) if array else have
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(have, expected, rtol=1e-4, atol=1e-4)
        else:
            np.testing.assert_array_equal(have, expected)


def _free(work: Work, sizes: Sizes) -> Sizes:
    """The sizes that the interpreter gets by keyword: no argument has them."""
    return {n: sizes[n] for n in ("OH", "OW") if work.kernel == "resize"}

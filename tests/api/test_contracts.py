"""`expect`: asked of the assembly, by whoever compiles."""

import pytest

import tdsl
from tdsl.diagnostics import IllegalSchedule

TEXT = """
kernel matmul(M, N, K) {{
    in  A: f32[M, K]
    in  B: f32[K, N]
    out C: f32[M, N]

    C[i, j] = sum[k](A[i, k] * B[k, j])
}}

schedule matmul for any {{
    tile i, j by {rows}, {vectors} * lanes(f32) -> io, jo, ii, ji {tail}
    reorder io, jo, k, ii, ji
    unroll ii
    vectorize ji
    expect {expect}
}}
"""
SIZES = {"M": 64, "N": 256, "K": 64}


def compiled(
    expect: str,
    *,
    rows: int = 4,
    vectors: int = 2,
    target: str = "avx512",
    sizes: dict[str, int] | None = None,
    tail: str = "",
) -> object:
    text = TEXT.format(rows=rows, vectors=vectors, expect=expect, tail=tail)
    return tdsl.parse(text)["matmul"].compile(
        target=target, sizes=SIZES if sizes is None else sizes
    )


def refused(expect: str, **options: object) -> str:
    with pytest.raises(IllegalSchedule) as raised:
        compiled(expect, **options)  # type: ignore[arg-type]
    return str(raised.value)


@pytest.mark.parametrize("target", ["avx512", "avx2"])
def test_a_tile_that_fits_does_not_spill(target: str) -> None:
    compiled(
        'spills(C) == 0, gathers(C) == 0, masks(C) == 0, uses(C, "vfmadd231ps")', target=target
    )


def test_a_tile_that_is_too_large_spills() -> None:
    """32 sums, 4 vectors and a broadcast are more than 32 registers."""
    said = refused("spills(C) == 0", rows=8, vectors=4)
    assert "expect spills(C) == 0: spills(C) is " in said
    assert (
        ": for (int64_t k = 0, k_end = tdsl_hidden(64); k < k_end; k++)" in said
    )  # the loop, by its line of C
    assert "32 fma" in said
    assert "%sfp" in said  # the accesses themselves
    assert "32 vector registers" in said


def test_the_smaller_half_of_the_registers_is_counted_too() -> None:
    """16 sums, 2 vectors and a broadcast are more than the 16 registers of avx2."""
    assert "16 fma" in refused("spills(C) == 0", rows=8, target="avx2")


@pytest.mark.neon
def test_the_assembly_of_a_cross_compiler_is_read() -> None:
    compiled('spills(C) == 0, masks(C) == 0, uses(C, "fmla")', rows=8, target="neon")
    said = refused("spills(C) == 0", rows=8, vectors=4, target="neon")
    assert "32 fma" in said and "[sp" in said


def test_without_a_compiler_for_the_target_it_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.warns(tdsl.api.CompileWarning, match="`expect` is not checked: no C compiler"):
        compiled("spills(C) == 0", rows=8, vectors=4, target="neon")


def test_an_instruction_that_is_not_used() -> None:
    said = refused('uses(C, "vpdpbusd")')
    assert "the innermost loop of C does not use vpdpbusd" in said
    assert "vfmadd231ps" in said  # what it uses instead


def test_conditions_are_joined() -> None:
    compiled('uses(C, "vpdpbusd") or spills(C) + gathers(C) <= 1, not uses(C, "vpdpbusd")')
    refused('uses(C, "vpdpbusd") and spills(C) == 0')


def test_tails_do_not_count() -> None:
    """70 columns are two vectors of 32 and a masked rest, which has loops of its own."""
    sizes = {**SIZES, "M": 62, "N": 70}
    compiled("masks(C) == 0", sizes=sizes, tail="tail cases")


def test_a_loop_that_is_always_masked_is() -> None:
    """A choice by lane in every iteration: no version is without a mask."""
    text = """
    kernel lower(N) {
        in  x: f32[N, N]
        out y: f32[N, N]

        y[i, j] = select(x[i, j] < 1.0, 2.0 * x[i, j], 0.0)
    }
    schedule lower for any { vectorize j by 16  expect masks(y) == 0 }
    """
    with pytest.raises(IllegalSchedule, match=r"masks\(y\) is [1-9]"):
        tdsl.parse(text)["lower"].compile(target="avx512")


def test_gathers_are_counted() -> None:
    text = """
    kernel diagonals(N) {
        in  x: f32[N, 7]
        out y: f32[N]

        y[i] = 2.0 * x[i, 3]
    }
    schedule diagonals for any { vectorize i by 16  expect gathers(y) == 0 }
    """
    with pytest.raises(IllegalSchedule, match=r"gathers\(y\) is [1-9]"):
        tdsl.parse(text)["diagonals"].compile(target="avx512")


def test_each_variant_is_asked_for_itself() -> None:
    """Of one entry with two variants, one is refused: the message is at its condition."""
    fits = TEXT.format(rows=4, vectors=2, expect="spills(C) == 0", tail="")
    schedule = fits[fits.index("schedule") :]
    small = schedule.replace("matmul for any", "matmul.small for any when M < 64")
    large = schedule.replace("by 4, 2 *", "by 8, 4 *").replace("matmul for", "matmul.large for")
    text = fits[: fits.index("schedule")] + small + large
    with pytest.raises(IllegalSchedule) as raised:
        tdsl.parse(text)["matmul"].compile(target="avx512", sizes={"N": 256, "K": 64})
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.span is not None
    assert text[: diagnostic.span.start].count("expect") == 2


def test_scratch_is_the_elements_of_the_workspace() -> None:
    text = """
    kernel twice(N) {{
        in  x: f32[N, 8]
        out y: f32[N, 8]

        h[i, j] = 2.0 * x[i, j]
        y[i, j] = h[i, j] * h[i, j]
    }}
    schedule twice for any {{ {place} expect {expect} }}
    """

    def compile(expect: str, place: str = "", **sizes: int) -> object:
        module = tdsl.parse(text.format(expect=expect, place=place))
        return module["twice"].compile(target="c", sizes=sizes)

    compile("scratch == 32 * N")
    compile("scratch == 3200", N=100)
    compile("scratch == 0", place="compute h at y.i in stack")
    with pytest.raises(IllegalSchedule, match="the workspace takes 3200 bytes"):
        compile("scratch < 3200", N=100)
    with pytest.raises(IllegalSchedule, match="the workspace takes"):
        compile("scratch <= 31 * N")


def test_what_each_thread_has_counts_for_each() -> None:
    text = """
    kernel twice(N) {{
        in  x: f32[N, 128]
        out y: f32[N, 128]

        h[i, j] = 2.0 * x[i, j]
        y[i, j] = h[i, j] * h[i, j]
    }}
    schedule twice for any {{
        parallel y.i
        compute h at y.i in scratch
        expect {expect}
    }}
    """
    for expect in ("scratch == 512 * threads", "scratch - 512 * threads <= 0"):
        tdsl.parse(text.format(expect=expect))["twice"].compile(target="c")
    with pytest.raises(IllegalSchedule, match="the workspace takes"):
        tdsl.parse(text.format(expect="scratch < 512 * threads"))["twice"].compile(target="c")


def test_schedules_made_by_methods_have_them_too() -> None:
    kernel = tdsl.parse(TEXT.format(rows=4, vectors=2, expect="spills(C) == 0", tail=""))["matmul"]
    made = kernel.schedule(target="avx2", sizes=SIZES)
    made.vectorize("j", by=8)
    made.add('expect uses(C, "vdivps")')
    with pytest.raises(IllegalSchedule, match="C does not use vdivps"):
        kernel.compile(schedule=made)


def test_recipes_expect_by_the_names_they_are_given() -> None:
    text = TEXT.format(rows=4, vectors=2, expect="spills(C) == 0", tail="")
    text = text[: text.index("schedule")] + (
        'recipe lanes(P, j, name = 8) { on P { vectorize j by name } expect uses(P, "vdivps") }\n'
        "schedule matmul for avx2 { use lanes(C, j) }\n"
    )
    with pytest.raises(IllegalSchedule) as raised:
        tdsl.parse(text)["matmul"].compile(target="avx2")
    assert "in the recipe used here" in str(raised.value)
    assert 'uses(C, "vdivps")' in str(raised.value)


def test_a_parallel_loop_is_looked_into() -> None:
    """Its body is a function of its own in the assembly."""
    text = TEXT.format(rows=8, vectors=4, expect="spills(C) == 0", tail="")
    text = text.replace("unroll ii", "unroll ii  parallel io")
    with pytest.raises(IllegalSchedule, match=r"spills\(C\) is [1-9]"):
        tdsl.parse(text)["matmul"].compile(target="avx512", sizes=SIZES)

"""Assembly is read as compilers write it: loops, whose instructions, of which kind."""

from tdsl.runtime.assembly import Loop, loops, readable

# A loop in a loop as gcc writes it for x86, with a slot of its frame and a masked store.
GCC = """\
\t.file\t"k.c"
\t.text
\t.globl\tk
\t.type\tk, @function
k:
.LFB1:
\t.file 1 "k.c"
\t.loc 1 3 1
\t.cfi_startproc
\txorl\t%eax, %eax\t# i
.L3:
# k.c:4:     for (i = 0; i < n; i++)
\t.loc 1 4 5
\tmovq\t%rdx, %rcx\t# x, p
.L2:
\t.file 2 "/usr/include/immintrin.h"
# /usr/include/immintrin.h:9: return a;
\t.loc 2 9 10
\tvmovups\t(%rcx), %zmm0\t# *p
\tvfmadd231ps\t136(%rsp), %zmm0, %zmm1\t# %sfp, tmp, acc
\tvpdpbusd\t%zmm0, %zmm2, %zmm3\t#
\tvmovups\t%zmm1, (%rdi){%k1}\t# acc, *y
\tvgatherdps\t(%rsi,%zmm4,4), %zmm5{%k2}\t#
\tvmovaps\t%zmm1, 136(%rsp)\t# acc, %sfp
\t.loc 1 5 9
\taddq\t$4, %rcx\t#, p
\tcmpq\t%r8, %rcx\t# end, p
\tjne\t.L2\t#,
\t.loc 1 4 5
\taddq\t$1, %rax\t#, i
\tcmpq\t%rax, %rsi\t# i, n
\tjne\t.L3\t#,
\tret
\t.cfi_endproc
.LFE1:
\t.size\tk, .-k
\t.section\t.debug_info,"",@progbits
\t.long\t0x44
\t.section\t.rodata
.LC0:
\t.long\t1065353216
\t.ident\t"GCC"
"""

# As clang writes it for AArch64.
CLANG = """\
\t.file\t"k.c"
\t.globl\tk
k:                                      // @k
.Lfunc_begin0:
\t.file\t0 "/tmp" "k.c" md5 0x1234
\t.loc\t0 3 0                           // k.c:3:0
\t.cfi_startproc
\tmov\tx8, xzr
.LBB0_1:                                // =>This Inner Loop Header: Depth=1
\t.loc\t0 4 5 is_stmt 1                 // k.c:4:5
\tldr\tq1, [x0, x8]
\tfmla\tv0.4s, v1.4s, v2.s[0]
\tstr\tq0, [sp, #16]                    // 16-byte Folded Spill
\tsdot\tv3.4s, v1.16b, v4.4b[0]
\tld1\t{ v5.s }[1], [x9]
\tsubs\tx1, x1, #1
\tb.ne\t.LBB0_1
\tret
.Lfunc_end0:
\t.size\tk, .Lfunc_end0-k
\t.cfi_endproc
"""


def _labels(found: tuple[Loop, ...]) -> list[tuple[str, bool]]:
    return [(loop.label, loop.innermost) for loop in found]


def test_loops_nest_and_own_what_is_not_inside() -> None:
    found = loops(GCC, "k.c")
    assert _labels(found) == [("k", False), (".L3", False), (".L2", True)]
    function, outer, inner = found
    assert [i.name for i in function.instructions] == ["xorl", "ret"]
    assert [i.name for i in outer.instructions] == ["movq", "addq", "cmpq", "jne"]
    assert len(inner.instructions) == 9


def test_lines_of_headers_are_not_lines_of_the_file() -> None:
    _, outer, inner = loops(GCC, "k.c")
    assert (set(outer.lines), set(inner.lines)) == ({4}, {5})


def test_kinds_of_x86() -> None:
    counts = loops(GCC, "k.c")[-1].counts
    assert (counts.instructions, counts.fma, counts.dot) == (9, 1, 1)
    assert (counts.loads, counts.stores, counts.spills) == (2, 1, 2)
    assert (counts.gathers, counts.masks) == (1, 2)


def test_kinds_of_arm_and_notes_of_clang() -> None:
    (inner,) = (loop for loop in loops(CLANG, "k.c") if not loop.is_function)
    counts = inner.counts
    assert inner.lines == {4}
    assert (counts.instructions, counts.fma, counts.dot) == (7, 1, 1)
    assert (counts.loads, counts.stores, counts.spills, counts.gathers) == (2, 0, 1, 1)
    assert inner.uses("sdot") and not inner.uses("udot")


def test_widths() -> None:
    widths = {i.name: i.width for i in loops(GCC, "k.c")[-1].instructions}
    assert widths["vfmadd231ps"] == 64 and widths["addq"] == 0
    arm = {i.name: i.width for loop in loops(CLANG, "k.c") for i in loop.instructions}
    assert (arm["ldr"], arm["fmla"], arm["subs"]) == (16, 16, 0)


def test_a_reader_sees_code_constants_and_the_lines_of_the_file() -> None:
    text = "\n".join(row for _, row in readable(GCC, "k.c"))
    assert "vfmadd231ps" in text and "k.c:4:" in text and "1065353216" in text
    for noise in (".loc", ".cfi", "immintrin", ".LFB", ".debug", "0x44"):
        assert noise not in text

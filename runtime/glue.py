"""The functions of a module for cffi's C file, under names of ours.

That file includes Python.h and has locals of its own, so that a kernel called `setter`, `fadd` or
`result`, or a record called `timespec`, would be taken for another thing there. It declares
`tdsl_call_NAME` instead, and says to the assembler which function that is:

before: int result(int64_t N, const float *x);
after:  int tdsl_call_result(int64_t N, const float *x) __asm__(TDSL_PREFIX "result");
"""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

PREFIX = "tdsl_call_"
PROTOTYPE = re.compile(r"\b(\w+)(\([^()]*\));")
TAG = re.compile(r"\bstruct (\w+)")
HEAD = """\
#include <stddef.h>
#include <stdint.h>
#define TDSL_TEXT_OF(x) #x
#define TDSL_TEXT(x) TDSL_TEXT_OF(x)
#define TDSL_PREFIX TDSL_TEXT(__USER_LABEL_PREFIX__)
"""


def declarations(cdef: str) -> str:
    """What cffi reads."""
    return PROTOTYPE.sub(rf"{PREFIX}\1\2;", _tagged(cdef))


def source(cdef: str) -> str:
    """What the C compiler reads."""
    return HEAD + PROTOTYPE.sub(rf'{PREFIX}\1\2 __asm__(TDSL_PREFIX "\1");', _tagged(cdef))


def _tagged(cdef: str) -> str:
    return TAG.sub(rf"struct {PREFIX}\1", cdef)


def named(lib: Any, cdef: str) -> SimpleNamespace:
    """The functions of cffi's module by the names that they have in C."""
    names = [found[1] for found in PROTOTYPE.finditer(cdef)]
    return SimpleNamespace(**{name: getattr(lib, PREFIX + name) for name in names})

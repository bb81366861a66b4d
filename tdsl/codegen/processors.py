"""Whether the processor that runs the code has an extension of AArch64.

gcc 12 has no `__builtin_cpu_supports` there: Linux says it in words of bits. Elsewhere the code
runs only where the compiler was told that the extension is always there.
"""

from __future__ import annotations

# Feature -> which word of `getauxval`, its bit, and the macro of a compiler that has it anyway.
_BITS = {
    "fp16": (16, 10, "__ARM_FEATURE_FP16_VECTOR_ARITHMETIC"),
    "dotprod": (16, 20, "__ARM_FEATURE_DOTPROD"),
    "i8mm": (26, 13, "__ARM_FEATURE_MATMUL_INT8"),
    "bf16": (26, 14, "__ARM_FEATURE_BF16_VECTOR_ARITHMETIC"),
}


def arm_feature(feature: str) -> str:
    """The definition of `tdsl_has_FEATURE`."""
    word, bit, macro = _BITS[feature]
    return f"""#if defined(__linux__)
#include <sys/auxv.h>
#endif
static _Bool tdsl_has_{feature}(void)
{{
#if defined({macro})
    return 1;
#elif defined(__linux__)
    return (getauxval({word}) >> {bit} & 1) != 0;
#else
    return 0;
#endif
}}"""

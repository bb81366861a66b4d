"""Element types and NumPy's types.

`bf16` has no NumPy type: its arrays hold the bit patterns as `uint16` (`tdsl.ir.lowfloat`
converts).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tdsl.ir.kernel import INDEX
from tdsl.ir.types import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    ElemType,
)

STORAGE: dict[ElemType, np.dtype[Any]] = {
    F64: np.dtype(np.float64),
    F32: np.dtype(np.float32),
    F16: np.dtype(np.float16),
    BF16: np.dtype(np.uint16),
    I8: np.dtype(np.int8),
    I16: np.dtype(np.int16),
    I32: np.dtype(np.int32),
    I64: np.dtype(np.int64),
    U8: np.dtype(np.uint8),
    U16: np.dtype(np.uint16),
    U32: np.dtype(np.uint32),
    U64: np.dtype(np.uint64),
    BOOL: np.dtype(np.bool_),
}

_ELEMENTS = {dtype: type_ for type_, dtype in STORAGE.items() if type_ is not BF16}


def storage_dtype(type_: ElemType) -> np.dtype[Any]:
    """The NumPy type of an array of `type_`; a record's has its fields where C puts them."""
    if not type_.fields:
        return STORAGE[type_]
    formats = [
        STORAGE[f.type] if f.count is None else (STORAGE[f.type], (f.count,)) for f in type_.fields
    ]
    return np.dtype(
        {
            "names": [f.name for f in type_.fields],
            "formats": formats,
            "offsets": [f.offset for f in type_.fields],
            "itemsize": type_.bytes,
        },
        align=True,
    )


def record_text(dtype: np.dtype[Any]) -> str:
    """How NumPy's type of a record is written."""
    assert dtype.names is not None and dtype.fields is not None
    fields = []
    for name in dtype.names:
        base, shape = dtype.fields[name][0].base, dtype.fields[name][0].shape
        length = f", {shape[0]}" if shape else ""
        fields.append(f'("{name}", "{base.str[1:]}"{length})')
    return f"np.dtype([{', '.join(fields)}], align=True)"


def compute_dtype(type_: ElemType) -> np.dtype[Any]:
    """The NumPy type in which values of `type_` are held: f32 for f16 and bf16."""
    if type_ in (F16, BF16):
        return STORAGE[F32]
    return STORAGE[I64] if type_ == INDEX else STORAGE[type_]


def element_type(dtype: np.dtype[Any]) -> ElemType | None:
    """The element type that NumPy's `dtype` stands for (`uint16` is u16); None without one."""
    return _ELEMENTS.get(dtype)

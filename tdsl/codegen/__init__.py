"""C from the vector level."""

from tdsl.codegen.entry import CArgument, CFunction
from tdsl.codegen.module import CModule, emit_module

__all__ = ["CArgument", "CFunction", "CModule", "emit_module"]

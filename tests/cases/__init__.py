"""Cases made from public bug reports of other compilers, and the kernels of the language's tour."""

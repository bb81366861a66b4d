"""The kernels of PolyBench/C 4.2.1, stated in the language (see the .tdsl files)."""

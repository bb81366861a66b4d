"""Every example, against the interpreter and against NumPy."""

"""Measurements against NumPy and onnxruntime, and of the compiler's own times."""

"""Random kernels under random schedules, against the interpreter."""

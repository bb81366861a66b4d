"""Peers of matmul.tdsl: `tdsl bench matmul.tdsl --size M=256 ... --against numpy,torch`."""

from importlib import import_module

import numpy as np


def matmul_numpy(A, B, C):
    return lambda: np.matmul(A, B, C)


def matmul_torch(A, B, C):
    torch = import_module("torch")  # here, since the others work without it
    a, b, c = (torch.from_numpy(x) for x in (A, B, C))
    return lambda: torch.matmul(a, b, out=c)

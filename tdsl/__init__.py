"""TDSL: tensor kernels, what is computed and apart from it how it runs."""

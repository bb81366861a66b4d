"""Directives that change orders, and kernels that need them."""

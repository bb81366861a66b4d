"""Kernels with the schedules that they are meant to run under."""

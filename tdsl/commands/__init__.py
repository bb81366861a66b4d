"""The commands of `tdsl`, one a file; `tdsl.cli` finds them by name."""

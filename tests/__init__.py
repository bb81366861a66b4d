"""The tests. A package, so that no `tests` folder of another distribution can stand in for it."""

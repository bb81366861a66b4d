"""The operator library, by value."""

"""Tests of building, caching, calling, emulating and measuring."""

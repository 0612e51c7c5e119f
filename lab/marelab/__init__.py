"""mare's laboratory: from a program's allocations to a justified choice of allocator. See docs/lab.md."""

__version__ = "0.1.0"

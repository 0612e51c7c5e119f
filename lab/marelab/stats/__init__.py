"""The statistics, each file one method. No file here knows what an allocator is."""

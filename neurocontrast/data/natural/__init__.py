"""Natural images: decoded once into a memory map of bytes and a table, read from there by index."""

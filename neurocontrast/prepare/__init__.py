"""Prepare raw heads: brain extraction, registration to MNI space, tissue maps, quality measures."""

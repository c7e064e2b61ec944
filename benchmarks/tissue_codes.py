"""Codes of the label maps whose voxels are grey and white matter, against which tissue maps are measured."""

GREY = (
    *range(100, 208),
    *(38, 39, 71, 72, 73),
    *(59, 60, 36, 37, 23, 30),
    *(57, 58, 55, 56, 31, 32),
    *(47, 48, 75, 76),
)
WHITE = (*range(81, 96), 69, 40, 41)

"""Names of places in the brain."""

import pytest

from neurocontrast.explanation.maps import name_of_place


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ((-24, -22, -15), "left hippocampus"),
        ((24, -2, -18), "right amygdala"),
        ((11, -12, 6), "right thalamus"),
        ((0, -55, 30), "precuneus"),
        ((-15, -27, -33), "22 mm from left hippocampus"),
    ],
)
def test_a_place_has_the_name_of_the_nearest_region(place, name):
    assert name_of_place(*map(float, place)) == name

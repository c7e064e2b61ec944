"""A collapse is told once when it begins; healthy runs are left in peace."""

import pytest
import torch
from tiny import Contrast, data, run

from neurocontrast.progress import SILENT
from neurocontrast.training import effective_rank, uniformity
from neurocontrast.training.validation import collapse_of, collapse_warning

HEALTHY = {"epoch": 1, "val_uniformity": -2.5, "val_effective_rank": 20.0, "val_features_effective_rank": 9.0}
POINT = HEALTHY | {"epoch": 2, "val_uniformity": -0.003}


class Listening(type(SILENT)):
    def __init__(self):
        self.messages, self.warnings = [], []

    def message(self, text):
        self.messages.append(text)

    def warning(self, text):
        self.warnings.append(text)


class AlignmentAlone(Contrast):
    """Nothing repels, so one point for all is the minimum."""

    def terms(self, z1, z2, metadata=None):
        return {"alignment": -torch.nn.functional.cosine_similarity(z1, z2).mean()}


@pytest.mark.parametrize("validation_rows", [range(10, 14), ()], ids=["validation", "training scans alone"])
def test_planted_collapse_is_told_once(tmp_path, validation_rows):
    heard = Listening()
    given = data(validation_rows=list(validation_rows))
    _, result = run(
        tmp_path, objective=AlignmentAlone(), epochs=24, learning_rate=0.05, step_epochs=60, progress=heard, given=given
    )
    side = "val" if len(validation_rows) else "train"
    collapsed = [row["epoch"] for row in result.metrics if row[f"{side}_uniformity"] > -0.02]
    assert len(collapsed) > 1
    assert len(heard.warnings) >= 1
    first = heard.warnings[0]
    assert first.startswith(f"epoch {collapsed[0]}: the representation has collapsed: all embeddings of ")
    assert "validation samples" in first if side == "val" else "training samples" in first
    begins = [epoch for epoch in collapsed if epoch - 1 not in collapsed]
    assert len(heard.warnings) == len(begins)
    assert f"{side} uniformity" in heard.messages[-1]


def figures_of(z):
    return {
        "epoch": 3,
        "val_uniformity": uniformity(z).item(),
        "val_effective_rank": effective_rank(z).item(),
        "val_features_effective_rank": 10.0,
    }


def test_points_and_lines_are_found_and_spread_or_noisy_embeddings_are_not():
    generator = torch.Generator().manual_seed(0)
    spread = torch.randn(64, 128, generator=generator)
    one, two = spread[0], spread[1]
    share = torch.linspace(0, 1, 64)[:, None]
    classes = torch.where(share < 0.5, one, two)
    assert "nearly the same point (uniformity -0.0" in collapse_of(figures_of(one + 0.05 * spread))
    assert "embeddings of validation samples lie on a line" in collapse_of(figures_of(classes + 1e-5 * spread))
    assert collapse_of(figures_of(spread)) is None
    assert collapse_of(figures_of(one + spread)) is None  # a common direction, as of brains, but spread around it
    assert collapse_of(figures_of(classes + 0.05 * spread)) is None  # two classes, told apart, each with its people
    assert collapse_of(figures_of((1 - share) * one + share * two)) is None  # an arc: a number, as of age, that bends


def test_warning_comes_once_an_episode():
    told = [
        collapse_warning(row, previous) is not None
        for previous, row in [
            (None, HEALTHY),
            (HEALTHY, POINT),
            (POINT, POINT),
            (POINT, HEALTHY),
            (HEALTHY, POINT),
            (None, POINT),
        ]
    ]
    assert told == [False, True, False, False, True, True]
    text = collapse_warning(POINT, HEALTHY)
    assert text.startswith("epoch 2: the representation has collapsed: all embeddings of validation samples")
    assert "training.learning_rate" in text

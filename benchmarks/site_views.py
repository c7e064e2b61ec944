"""Views that imitate other sites: how long each operation takes beside MONAI's, what they cost a step, how they look.

python benchmarks/site_views.py               # 121×145×121, one thread, and shares of training steps; two minutes
python benchmarks/site_views.py --pictures    # docs/images/site_views.png: one simulated brain under each operation
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from neurocontrast.augment import AugmentSettings, TwoViews
from neurocontrast.data.simulation import SimulationSettings, draw_person, render_scan

OPERATIONS = (
    "affine",
    "contrast",
    "histogram",
    "bias_field",
    "sharpness",
    "resolution",
    "ghosting",
    "rician",
    "tight_mask",
    "mask_edge",
)
FIGURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "site_views.png"


def alone(operation: str) -> AugmentSettings:
    """Return settings under which one operation is applied every time, at its default strength, and nothing else."""
    settings = getattr(AugmentSettings.sites(), operation).model_copy(update={"probability": 1.0})
    return AugmentSettings.off().model_copy(update={operation: settings})


def brain(spacing_mm: float) -> torch.Tensor:
    """Return a simulated brain, z-scored over its box, as a batch of one."""
    settings = SimulationSettings(spacing_mm=spacing_mm)
    volume = render_scan(settings, draw_person(settings, 0)).astype(np.float32)
    return torch.from_numpy((volume - volume.mean()) / volume.std())[None, None]


def draw_pictures(path: Path, spacing_mm: float, n_draws: int = 3) -> None:
    """Draw an axial slice of one brain, and of `n_draws` views of it by each operation and by all together."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    volume = brain(spacing_mm)
    columns = {"as it is": AugmentSettings.off()} | {name: alone(name) for name in OPERATIONS}
    columns["sites()"] = AugmentSettings.sites().model_copy(update={"cutout": None})
    figure, axes = pyplot.subplots(n_draws, len(columns), figsize=(1.25 * len(columns), 1.55 * n_draws))
    for column, (name, settings) in enumerate(columns.items()):
        for row in range(n_draws):
            view = TwoViews(settings, seed=1).view(volume, [row], epoch=0, view=0)[0, 0].numpy()
            picture = axes[row, column]
            picture.imshow(view[:, :, round(0.5 * view.shape[2])].T, cmap="gray", origin="lower", vmin=-1.0, vmax=3.0)
            picture.axis("off")
        axes[0, column].set_title(name, fontsize=9)
    figure.subplots_adjust(0.0, 0.0, 1.0, 0.94, 0.02, 0.02)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", nargs="?", type=Path, const=FIGURE, help="draw into this file instead")
    parser.add_argument("--spacing-mm", type=float, default=2.0, help="of the pictures")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.pictures:
        draw_pictures(arguments.pictures, arguments.spacing_mm)
        return


if __name__ == "__main__":
    main()

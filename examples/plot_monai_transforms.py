"""
Your MONAI transforms
=====================

Any MONAI ``Compose`` can replace the preprocessing, and another the random views, given from Python. Here both are
seen at work on real brains, and an encoder is trained with them.
"""

# %%
# Preprocessing of your own
# -------------------------
#
# It leads from a path to a tensor (channels, D, H, W), and nothing in it is random.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from monai.transforms import (
    Compose,
    LoadImaged,
    NormalizeIntensityd,
    RandAdjustContrastd,
    RandAffined,
    RandGaussianSmoothd,
    Resized,
)

import neurocontrast
from neurocontrast.datasets import load_sample
from neurocontrast.transforms import TwoViews

sample = load_sample()
steps = Compose(
    [
        LoadImaged("image", ensure_channel_first=True),
        Resized("image", spatial_size=(40, 48, 40)),
        NormalizeIntensityd("image", nonzero=True),
    ]
)
scan = steps({"image": sample.table["path"].iloc[0]})["image"]
print(
    tuple(scan.shape),
    f"mean {float(scan[scan != 0].mean()):.2f}, standard deviation {float(scan[scan != 0].std()):.2f}",
)

# %%
# Views of your own
# -----------------
#
# ``TwoViews`` draws two views of every scan from any random transforms, keyed by seed, epoch, sample and view: a
# resumed run draws what it would have drawn.
views = Compose(
    [
        RandAffined("image", prob=0.8, rotate_range=0.15, translate_range=2.0),
        RandGaussianSmoothd("image", (0.2, 0.6), (0.2, 0.6), (0.2, 0.6), prob=0.5),
        RandAdjustContrastd("image", prob=0.5, gamma=(0.7, 1.4)),
    ]
)
batch = torch.stack(
    [steps({"image": path})["image"].as_tensor() for path in sample.table["path"].iloc[:3]]
)
first, second = TwoViews(views, seed=0)(
    batch, list(sample.table["participant_id"].iloc[:3]), epoch=0
)
figure, axes = plt.subplots(3, 3, figsize=(6.6, 6.6), layout="constrained")
for row, scans in zip(axes, zip(batch, first, second, strict=True), strict=True):
    for axis, volume, title in zip(row, scans, ("scan", "view 1", "view 2"), strict=True):
        axis.imshow(volume[0, :, :, 20].T, cmap="gray", origin="lower", vmin=-2, vmax=2.5)
        axis.set(title=title, xticks=[], yticks=[])

# %%
# Training with them
# ------------------
#
# A small network, two epochs, on the people to learn from. ``embed`` needs the same preprocessing, so it gets it too.
folder = Path(tempfile.mkdtemp(prefix="neurocontrast-example-"))
config = {
    "data": {
        "participants": str(sample.participants),
        "where": {"split": ["train"]},
        "cache_dir": str(folder / "cache"),
    },
    "encoder": {"name": "lenet"},
    "objective": {
        "loss": "yaware",
        "kernel": [{"column": "age", "type": "gaussian", "sigma": 5.0}],
    },
    "training": {"epochs": 2, "batch_size": 16, "probe_every": 0},
}
run = neurocontrast.pretrain(config, out=folder / "run", transforms=steps, augment=views)
print((run / "metrics.csv").read_text())
table = neurocontrast.embed(
    run, participants=sample.participants, out=folder / "embeddings.parquet", transforms=steps
)
print(table)
plt.show()

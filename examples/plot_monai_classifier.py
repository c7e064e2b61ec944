"""
MONAI's own network on a cohort
===============================

A ``monai.data.Dataset`` in, everything else plain MONAI and torch: ``CohortDataset`` reads 64 simulated brains of two
sites, and MONAI's DenseNet tells women from men with a loss, an optimiser and random transforms that are not ours.
"""

# %%
# A cohort, and its scans as a dataset
# ------------------------------------
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from monai.data import DataLoader
from monai.networks.nets import DenseNet
from monai.transforms import Compose, RandGaussianNoised, RandScaleIntensityd
from monai.utils import set_determinism
from sklearn.metrics import roc_auc_score

from neurocontrast import simulate
from neurocontrast.data import CohortDataset, read_cohort
from neurocontrast.transforms import brain_transforms

set_determinism(seed=0)
torch.set_num_threads(1)
folder = Path(tempfile.mkdtemp())
cohort = read_cohort(
    simulate(folder / "cohort", n_subjects=64, n_sites=2, patients=0.0, spacing_mm=6.0)
)
preprocessing = brain_transforms(spacing_mm=6.0, shape=(32, 36, 32), normalise="zscore-brain")
views = Compose(
    [
        preprocessing,
        RandScaleIntensityd("image", 0.1, prob=0.5),
        RandGaussianNoised("image", std=0.05),
    ]
)
rows = np.arange(len(cohort))
# What comes before the first random transform is kept in the cache; the rest is drawn again in each epoch.
train = CohortDataset(cohort.subset(rows % 4 != 0), views, folder / "cache")
test = CohortDataset(cohort.subset(rows % 4 == 0), preprocessing, folder / "cache")
item = train[0]
print(
    {name: value for name, value in item.items() if name != "image"},
    item["image"].shape,
    item["image"].pixdim,
)

# %%
# MONAI's DenseNet, in a plain loop
# ---------------------------------
size = {"init_features": 8, "growth_rate": 8, "block_config": (2, 2, 2)}
network = DenseNet(spatial_dims=3, in_channels=1, out_channels=1, **size)
optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)


def is_woman(batch: dict) -> torch.Tensor:
    """Return 1.0 for a woman and 0.0 for a man."""
    return torch.tensor([float(sex == "F") for sex in batch["sex"]])


course = []
for epoch in range(10):
    losses = []
    for batch in DataLoader(train, batch_size=12, shuffle=True):
        scores = network(batch["image"].as_tensor())[:, 0]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, is_woman(batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    course.append(np.mean(losses))
    print(f"epoch {epoch + 1:2d}  loss {np.mean(losses):.3f}")

figure, axis = plt.subplots(figsize=(5, 2.4), layout="constrained")
axis.plot(range(1, 11), course, "o-", color="black")
axis.set(xlabel="epoch", ylabel="training loss")

# %%
# People it has not seen
# ----------------------
network.eval()
with torch.no_grad():
    found = [
        (is_woman(batch), network(batch["image"].as_tensor())[:, 0])
        for batch in DataLoader(test, batch_size=16)
    ]
truth, scores = (torch.cat(parts).numpy() for parts in zip(*found, strict=True))
print(
    f"{len(truth)} people not seen: area under the ROC curve of their sex {roc_auc_score(truth, scores):.2f}"
)
plt.show()

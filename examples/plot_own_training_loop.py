"""
Losses in a training loop of your own
=====================================

Scikit-learn's 8 × 8 digits, a small network, two noisy views, three losses: nothing of neurocontrast but the losses.
"""

# %%
# Data and two views
# ------------------
import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from neurocontrast.losses import SINCERE, NTXent, SupCon

digits = load_digits()
images = torch.tensor(digits.data, dtype=torch.float32) / 16.0
labels = torch.tensor(digits.target)
train, test = slice(0, 1200), slice(1200, None)


def view(batch: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return a view: noise, and a tenth of the pixels dropped."""
    kept = torch.rand(batch.shape, generator=generator) > 0.1
    return (batch + 0.2 * torch.randn(batch.shape, generator=generator)) * kept


# %%
# Train an encoder with each loss; judge its frozen features by a logistic regression
# -----------------------------------------------------------------------------------
def accuracy_of(loss: torch.nn.Module) -> float:
    """Return the linear accuracy of the features that the loss trains."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = torch.nn.Sequential(
            torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64), torch.nn.ReLU()
        )
        head = torch.nn.Linear(64, 32)
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-3)
    for _ in range(15):
        for rows in torch.randperm(1200, generator=generator).split(200):
            batch = images[train][rows]
            z1, z2 = (head(encoder(view(batch, generator))) for _ in range(2))
            optimizer.zero_grad()
            loss(z1, z2, {"label": labels[train][rows]}).backward()
            optimizer.step()
    with torch.no_grad():
        features = encoder(images).numpy()
    probe = LogisticRegression(max_iter=2000).fit(features[train], digits.target[train])
    return float(probe.score(features[test], digits.target[test]))


found = {
    "NT-Xent": accuracy_of(NTXent(temperature=0.1)),
    "SupCon": accuracy_of(SupCon("label", temperature=0.1)),
    "SINCERE": accuracy_of(SINCERE("label", temperature=0.1)),
}
figure, axis = plt.subplots(figsize=(6, 2.2), layout="constrained")
axis.barh(list(found), list(found.values()), color="0.7")
for place, accuracy in enumerate(found.values()):
    axis.text(accuracy, place, f"{accuracy:.3f} ", va="center", ha="right")
axis.set(xlabel="linear accuracy on held-out digits", xlim=(0, 1))
plt.show()

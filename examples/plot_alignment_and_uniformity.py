"""
Alignment and uniformity on a circle
====================================

Every loss here pulls some points together and pushes others apart. On a circle, with one free point a person, both can
be watched as training goes: where people of each age end up, and what the two parts of the loss do.
"""

# %%
# Sixty people, two views each, on a circle
# -----------------------------------------
import matplotlib.pyplot as plt
import torch

from neurocontrast import losses
from neurocontrast.kernels import Gaussian

age = torch.rand(60, generator=torch.Generator().manual_seed(0)).sort().values * 60 + 20
metadata = {"age": age}
like_age = Gaussian("age", sigma=5.0)


def train(
    loss: torch.nn.Module, n_steps: int = 400
) -> tuple[list[torch.Tensor], list[dict[str, float]]]:
    """Move the points by a loss; return where they are, and its parts, after some of the steps."""
    points = torch.randn(2, 60, 2, generator=torch.Generator().manual_seed(1)).requires_grad_()
    optimizer = torch.optim.Adam([points], lr=0.02)
    places, parts = [], []
    for step in range(n_steps + 1):
        optimizer.zero_grad()
        terms = loss.terms(points[0], points[1], metadata)
        if step % 10 == 0:
            places.append(torch.nn.functional.normalize(points.detach().mean(0), dim=1))
            parts.append({name: float(value) for name, value in terms.items()})
        sum(terms.values()).backward()
        optimizer.step()
    return places, parts


# %%
# Where people end up
# -------------------
#
# NT-Xent spreads all people over the circle, in no order of age. y-Aware InfoNCE and conditional alignment +
# conditional uniformity put people of like age beside each other. Conditional uniformity pushes only people apart whose
# ages differ, so that people of one age may lie in one place.
objectives = {
    "NT-Xent": losses.NTXent(temperature=0.5),
    "y-Aware InfoNCE": losses.YAwareInfoNCE(like_age, temperature=0.5),
    "conditional alignment + uniformity": losses.ConditionalAlignmentUniformity(
        like_age, temperature=0.5
    ),
}
trained = {name: train(loss) for name, loss in objectives.items()}
figure, axes = plt.subplots(3, 4, figsize=(11, 8.4), layout="constrained")
for row, (name, (places, _)) in zip(axes, trained.items(), strict=True):
    for axis, step in zip(row, (0, 50, 100, 400), strict=True):
        x, y = places[step // 10].T
        drawn = axis.scatter(x, y, c=age, cmap="viridis", s=20)
        axis.set(
            aspect="equal",
            xlim=(-1.2, 1.2),
            ylim=(-1.2, 1.2),
            xticks=[],
            yticks=[],
            title=f"step {step}",
        )
    row[0].set_ylabel(name)
figure.colorbar(drawn, ax=axes, label="age (years)")

# %%
# The parts of the loss
# ---------------------
#
# ``loss.terms`` names them, and a run's ``metrics.csv`` has a column each: alignment falls as alike points meet,
# uniformity as the others part. On a circle points begin spread already, so that NT-Xent has little left to push.
figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
for axis, (name, (_, parts)) in zip(axes, trained.items(), strict=True):
    for part in ("alignment", "uniformity"):
        axis.plot(range(0, 401, 10), [each[part] for each in parts], label=part)
    axis.set(title=name, xlabel="step")
axes[0].legend()

# %%
# Do neighbours share their age?
# ------------------------------
for name, (places, _) in trained.items():
    nearest = (places[-1] @ places[-1].T).fill_diagonal_(-2).argmax(1)
    print(
        f"{name:36s} nearest neighbours are {float((age - age[nearest]).abs().mean()):4.1f} years apart"
    )
plt.show()

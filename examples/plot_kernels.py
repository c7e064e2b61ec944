"""
Kernels over a real cohort
==========================

A kernel on metadata says how alike two people are. Its matrix over the people of the sample cohort shows what a batch
will pull together, and what the bandwidth σ changes. Then free points on a sphere are moved by three losses.
"""

# %%
# People, ordered by sex and age
# ------------------------------
#
# Categories are integer codes, numbers are those of the table.
import matplotlib.pyplot as plt
import torch

from neurocontrast.datasets import load_sample
from neurocontrast.kernels import Categorical, Different, Gaussian
from neurocontrast.losses import ConditionalAlignmentUniformity, NTXent, YAwareInfoNCE

people = load_sample().table.query("diagnosis == 'control'").sort_values(["sex", "age"])
age = torch.tensor(people["age"].to_numpy(float))
sex = torch.tensor(people["sex"].eq("M").to_numpy(int))
site = torch.tensor(people["site"].astype("category").cat.codes.to_numpy(int))
metadata = {"age": age, "sex": sex, "site": site}
print(
    f"{len(people)} healthy people, {int(sex.sum())} men, {age.min():.0f} to {age.max():.0f} years"
)

# %%
# A factor each, and their product
# --------------------------------
#
# Women come first, each sex from the youngest to the oldest. ``Different`` turns what is shared around: people of one
# scanner are not alike for it.
kernels = {
    "age, σ = 5 years": Gaussian("age", sigma=5.0),
    "sex": Categorical("sex"),
    "age × sex": Gaussian("age", sigma=5.0) * Categorical("sex"),
    "age × sex × another scanner": Gaussian("age", sigma=5.0)
    * Categorical("sex")
    * Different("site"),
}
figure, axes = plt.subplots(1, 4, figsize=(13, 3.6), layout="constrained")
for axis, (name, kernel) in zip(axes, kernels.items(), strict=True):
    drawn = axis.imshow(kernel(metadata), vmin=0, vmax=1, cmap="viridis")
    axis.set(title=name, xlabel="person")
axes[0].set_ylabel("person")
figure.colorbar(drawn, ax=axes, label="weight")

# %%
# What σ does
# -----------
#
# The sum of a row says of how many others a person is pulled. Below a year nobody has company, and the loss is NT-Xent;
# above 20 years everybody is alike, and nothing is left to learn.
figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
for sigma in (0.5, 2.0, 5.0, 10.0, 20.0):
    company = Gaussian("age", sigma=sigma)(metadata).sum(1) - 1
    order = age.argsort()
    axis.plot(age[order], company[order], label=f"σ = {sigma:g} years")
axis.set(xlabel="age (years)", ylabel="people that attract (sum of weights)", yscale="symlog")
axis.legend(fontsize=8, ncols=2, loc="lower right")


# %%
# What a loss makes of it
# -----------------------
#
# One free point a person and view, moved by the loss alone. NT-Xent knows nobody; with a kernel, the nearest neighbour
# is of like age and of the same sex.
def moved_by(loss: torch.nn.Module) -> torch.Tensor:
    """Return the points after gradient descent on the loss."""
    points = torch.randn(
        2, len(age), 8, generator=torch.Generator().manual_seed(1)
    ).requires_grad_()
    optimizer = torch.optim.Adam([points], lr=0.05)
    for _ in range(300):
        optimizer.zero_grad()
        loss(points[0], points[1], metadata).backward()
        optimizer.step()
    return torch.nn.functional.normalize(points.detach().mean(0), dim=1)


losses = {
    "NT-Xent": NTXent(temperature=0.1),
    "y-Aware InfoNCE": YAwareInfoNCE(kernels["age × sex"], temperature=0.1),
    "conditional alignment + uniformity": ConditionalAlignmentUniformity(
        kernels["age × sex"], temperature=0.1
    ),
}
figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained", sharey=True)
for axis, (name, loss) in zip(axes, losses.items(), strict=True):
    points = moved_by(loss)
    axis.imshow(points @ points.T, vmin=-1, vmax=1, cmap="RdBu_r")
    axis.set(title=name, xlabel="person")
    nearest = (points @ points.T).fill_diagonal_(-2.0).argmax(dim=1)
    years, same = (age - age[nearest]).abs().mean(), (sex == sex[nearest]).double().mean()
    print(f"{name:36s} nearest neighbour: {years:4.1f} years apart, same sex {same:.0%}")
axes[0].set_ylabel("person")
plt.show()

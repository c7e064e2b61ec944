"""
A loss of your own in one file
==============================

A loss is one class: a constructor, a title and a citation for reports, and its parts. It then works
in Python, in recipes, in several processes and for large batches, as the built-in ones do. This one
pulls people alike in metadata together, until they are near enough.
"""

# %%
# The class
# ---------
#
# The parameters of the constructor are the loss's keys in a recipe; ``checked`` refuses values that
# their annotations do not allow. The formula is written for a block of anchors, from the parts that
# every loss here has: weights of a kernel, weighted means and log-sum-exp over the candidates. No
# n × n matrix is held.
import matplotlib.pyplot as plt
import torch

from neurocontrast.kernels import Gaussian
from neurocontrast.kernels.factors import KernelLike
from neurocontrast.losses import NTXent, Objective, YAwareInfoNCE
from neurocontrast.settings import NonNegative, Positive, checked


class PatientAlignment(Objective):
    """Conditional alignment that stops at a similarity, beside the uniformity of NT-Xent."""

    title = "patient alignment"
    citation = "An example of neurocontrast's gallery."

    @checked
    def __init__(
        self, kernel: KernelLike, *, temperature: Positive = 0.1, enough: NonNegative = 0.8
    ):
        super().__init__(kernel=kernel, temperature=temperature)
        self.enough = enough

    def parts(self, pool):
        """Return the parts that sum to the loss."""
        highest = self.enough * pool.scale  # similarities are <z_i, z_j>/τ

        def of_anchors(pairs):
            w = pairs.weights(self.kernel)
            return pairs.mean(w).clamp_max(highest), pairs.log_sum_exp()

        similarity, sums = pool.each_anchor(of_anchors)
        return {"alignment": -pool.mean(similarity), "uniformity": pool.mean(sums)}


loss = PatientAlignment(Gaussian("age", sigma=5.0), enough=0.6)
print(loss)

# %%
# It is a PyTorch module
# ----------------------
#
# Wrong settings are answered as those of any other loss.
age = torch.rand(60, generator=torch.Generator().manual_seed(0)) * 60 + 20
views = torch.randn(2, 60, 8, generator=torch.Generator().manual_seed(1))
print({name: round(float(part), 3) for name, part in loss.terms(*views, {"age": age}).items()})
print("values of anchors:", tuple(loss(*views, {"age": age}, reduction="none").shape))
try:
    PatientAlignment(Gaussian("age", sigma=5.0), enough=-1.0)
except Exception as error:
    print(f"{type(error).__name__}: {error}")


# %%
# Beside others
# -------------
#
# Free points moved by each loss: similarity of two people against the difference of their ages.
def moved_by(objective: torch.nn.Module) -> torch.Tensor:
    """Return the points after gradient descent."""
    points = views.clone().requires_grad_()
    optimizer = torch.optim.Adam([points], lr=0.05)
    for _ in range(300):
        optimizer.zero_grad()
        objective(points[0], points[1], {"age": age}).backward()
        optimizer.step()
    return torch.nn.functional.normalize(points.detach().mean(0), dim=1)


figure, axis = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
years = (age.unsqueeze(1) - age).abs()
for name, each in {
    "NT-Xent": NTXent(),
    "y-Aware InfoNCE": YAwareInfoNCE(Gaussian("age", sigma=5.0)),
    "patient alignment": loss,
}.items():
    points = moved_by(each)
    similarity = points @ points.T
    bins = [(low, (years >= low) & (years < low + 5) & (years > 0)) for low in range(0, 50, 5)]
    axis.plot(
        [low + 2.5 for low, _ in bins],
        [float(similarity[inside].mean()) for _, inside in bins],
        label=name,
    )
axis.set(xlabel="difference of age (years)", ylabel="mean similarity")
axis.legend()

# %%
# In a recipe
# -----------
#
# A configuration names it ``module:Class``, once the module has been imported by your program:
# ``--set objective.loss=my_losses:PatientAlignment`` in a script that imports ``my_losses`` and calls
# ``neurocontrast.pretrain``. A configuration alone never imports code.
plt.show()

"""
Natural images with labels
==========================

The same calls as for brains, with ``data.kind: images``: scikit-learn's digits, two losses, and a linear evaluation of
their frozen features. A small network and a few epochs: it shows that labels help (SupCon) where they may be used.
"""

# %%
# One folder of images: bytes, and a table with one row an image
# --------------------------------------------------------------
import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import neurocontrast

folder = Path(tempfile.mkdtemp(prefix="neurocontrast-example-"))
digits = neurocontrast.prepare_images(folder / "digits", dataset="digits", n_train=600)
print(neurocontrast.check(digits).to_text())

# %%
# Pretrain on the training images, embed all, fit a linear classifier on training images and test it on test images
# -----------------------------------------------------------------------------------------------------------------
config = {
    "data": {"kind": "images", "participants": str(digits), "where": {"split": ["train"]}},
    "augment": {
        "affine": {"degrees": 10, "scale": [0.9, 1.1]},
        "crop": {"scale": [0.6, 1.0]},
        "flip": None,  # a digit in a mirror is no digit
        "colour_jitter": None,
        "grayscale": None,
    },
    "encoder": {"name": "lenet5", "projection": [64, 32], "projection_norm": "layers"},
    "training": {"batch_size": 128, "learning_rate": 3e-3, "probe_every": 0},
}
losses = {
    "untrained": ({"loss": "ntxent"}, 0),
    "SimCLR": ({"loss": "ntxent", "temperature": 0.5}, 15),
    "SupCon": ({"loss": "supcon", "label": "label", "temperature": 0.1}, 15),
}
figure, axis = plt.subplots(figsize=(6, 2), layout="constrained")
for name, (objective, epochs) in losses.items():
    recipe = config | {"objective": objective, "training": {**config["training"], "epochs": epochs}}
    run = neurocontrast.pretrain(recipe, out=folder / name)
    embeddings = neurocontrast.embed(run, participants=digits, out=folder / f"{name}.parquet")
    evaluation = neurocontrast.evaluate(
        embeddings,
        out=folder / f"{name}-evaluation",
        target="label",
        split_column="split",
        n_bootstraps=200,
        confounds=False,
        outlyingness=False,
    )
    summary = json.loads((evaluation / "evaluation.json").read_text())
    top1 = summary["metrics"]["accuracy"]
    low, high = top1["interval"]
    n_test = summary["split"]["n"]["test"]
    print(f"{name:10s} top-1 of {n_test} test images: {top1['mean']:.3f} [{low:.3f}, {high:.3f}]")
    axis.plot([low, high], [name, name], color="0.6")
    axis.plot(top1["mean"], name, "o", color="black")
axis.set(xlabel="top-1 accuracy on test images, 95 % interval")

# %%
# One file for a reviewer
# -----------------------
print("Report:", neurocontrast.report(evaluation))
plt.show()

"""Train a segmenter on label maps under random contrast, and segment a prepared cohort with it.

    python benchmarks/segmenter.py train --data ../shared/data --out OUT [--steps 700]
    [--synthesised 0.3] python benchmarks/segmenter.py segment --prepared PREPARED --out OUT python
    benchmarks/segmenter.py compare --out OUT --tissue TISSUE [--seeds 3]

A small U-Net learns six regions from DLMUSE's maps of london's brains, on a grid of 3 mm. Each step
shows one brain moved at random; with probability `synthesised` each of fourteen tissues has a
random signal in place of the scan's own. Contrast, bias field, sharpness, noise and the rim of the
brain change at random in all. Every sixth person from the fourth on is held out, as in
`preparation.py`: `train` prints their Dice at 2 mm, of the segmenter and of
expectation-maximisation. `segment` writes the tables and tissue maps as `prepare` does, and the
volume of each region. `compare` fits the linear systems of `tissue.py` and probes of the volumes,
and prints their errors beside those of its folder TISSUE. A finished network, finished maps and
finished encoders are kept.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import nibabel as nib
import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from monai.losses import DiceCELoss
from monai.networks.nets import BasicUNet
from monai.transforms import Compose, Lambdad, NormalizeIntensity, RandAffined, RandFlipd
from monai.utils import set_determinism
from preparation import GREY, WHITE, dice
from safetensors.torch import load_file, save_file
from scoring_brains import HOME, difference, mae_of, predictions
from tissue import NEW, PLACES, Study, table_of
from tissue_systems import FIVE

from neurocontrast.files import atomic_path, digest_of
from neurocontrast.prepare.registration import Registration, resample_to_grid
from neurocontrast.prepare.tissue import segment_tissue, tissue_priors
from neurocontrast.seeds import derive_seed
from neurocontrast.transforms import AugmentSettings, brain_views
from neurocontrast.transforms.augment import Operation
from neurocontrast.transforms.preprocessing import mni_grid
from neurocontrast.transforms.rand_volumes import RandVolumed
from neurocontrast.transforms.signal import from_signal, to_signal
from neurocontrast.transforms.volumes import per_sample

CORTEX = list(range(100, 208))
DEEP = [[31, 32, 47, 48], [23, 30, 36, 37], [57, 58], [55, 56], [59, 60], [75, 76]]
VENTRICLES = [4, 11, 49, 50, 51, 52]
CEREBELLUM = [38, 39, 71, 72, 73]
STEM = [35, 61, 62]
WHITES = [[*range(81, 95), 69], [95], [40, 41], STEM]
REGIONS = {
    "fluid": [],
    "ventricles": VENTRICLES,
    "cortex": CORTEX,
    "deep grey": [code for group in DEEP for code in group],
    "cerebellum": CEREBELLUM,
    "white": [code for group in WHITES for code in group],
}
"""What the network tells apart, beside the background; fluid is what else is in the brain's mask."""
SIGNALS = [[1, 46], VENTRICLES, CORTEX, CEREBELLUM, *DEEP, *WHITES]
"""Tissues with a signal of their own in a synthesised scan."""
WINDOW = (slice(4, 86), slice(6, 104), slice(0, 84))
"""Voxels of 2 mm in which every brain lies."""
SPACING_MM = 3.0
SHAPE = (56, 72, 64)
"""Voxels of the network's grid that a step shows."""
FEATURES = (8, 8, 24, 48, 48, 8)
N_CODES = 208
IN_PLACE = Registration(np.eye(4), float("nan"))
Floats = npt.NDArray[np.float32]
Affine = npt.NDArray[np.float64]


def look_up(groups: list[list[int]], first: int) -> torch.Tensor:
    """Return the number of the group of each code, counted from `first`; 0 for codes in none."""
    table = torch.zeros(N_CODES, dtype=torch.long)
    for number, group in enumerate(groups, start=first):
        table[group] = number
    return table


class Synthesise(Operation):
    """Show the maps of a scan's tissues in random contrasts, in place of the scan."""

    contrast: tuple[float, float] = (0.1, 1.0)
    """Signal of a tissue, drawn for each tissue."""
    rim: tuple[float, float] = (0.0, 1.0)
    """Signal of the part of the brain that is in no map."""


class RandSynthesised(RandVolumed):
    """Show the maps of a scan's tissues, its channels from the second on, in random contrasts in place of the scan."""

    Settings = Synthesise
    operation = "synthesise"

    def limits(self) -> dict[str, tuple[float, float]]:
        """Return the range of the signal of what no map holds."""
        return {"rim": self.settings.rim}

    def n_further(self, n_channels: int) -> int:
        """Count the maps."""
        return n_channels - 1

    def further(self, uniforms: np.ndarray, n_channels: int) -> dict[str, np.ndarray]:  # noqa: ARG002
        """Draw the signal of each tissue."""
        low, high = self.settings.contrast
        return {"tissues": low + (high - low) * uniforms}

    def change(
        self, x_BCDHW: torch.Tensor, *, tissues: np.ndarray, rim: np.ndarray
    ) -> torch.Tensor:
        """Return one channel, normalised as the scan is: Σ_k tissue_k·map_k + rim·(1 − Σ_k map_k) inside its brain."""
        signals = to_signal(x_BCDHW[:, :1])
        maps = x_BCDHW[:, 1:].clamp(min=0.0)
        maps /= maps.amax((2, 3, 4), keepdim=True).clamp_(min=1e-6)
        maps /= maps.sum(1, keepdim=True).clamp_(min=1.0)
        image = per_sample(rim, maps) * (1.0 - maps.sum(1, keepdim=True))
        image += (maps * per_sample(tissues, maps)).sum(1, keepdim=True)
        signals.x_BCDHW = image
        return from_signal(signals)


def first_channel(x_CDHW: torch.Tensor) -> torch.Tensor:
    """Return the scan without the maps behind it."""
    return x_CDHW[:1]


def views(synthesised: float) -> Compose:
    """Return what changes at random in a scan and its signals' maps, but for its place."""
    shown = RandSynthesised("image", synthesised, contrast=(0.05, 1.0), rim=(0.0, 0.6))
    changed = brain_views(
        AugmentSettings(
            contrast={"probability": 0.8, "gamma": (0.6, 1.8)},
            bias_field={"probability": 0.8, "strength": (0.02, 0.2)},
            sharpness={"probability": 0.8, "amount": (-0.8, 0.5), "sigma_voxels": 0.6},
            rician={"probability": 0.8, "sigma": (0.0, 0.05)},
            tight_mask={"probability": 0.4, "depth_voxels": (0.2, 2.0), "below": (0.2, 0.55)},
            mask_edge={"probability": 0.4, "depth_voxels": (-0.8, 1.0)},
            blur=None, noise=None, cutout=None,
        )
    )  # fmt: skip
    return Compose([shown, Lambdad("image", first_channel, track_meta=False), *changed.transforms])


class Examples:
    """Brains and label maps, shown anew at each step."""

    def __init__(
        self, brains: list[torch.Tensor], codes: list[torch.Tensor], synthesised: float, seed: int
    ) -> None:
        self.brains, self.codes, self.seed = brains, codes, seed
        self.regions, self.signals = look_up(list(REGIONS.values()), 1), look_up(SIGNALS, 1)
        keys = ["image", "codes", "brain"]
        zoom = SPACING_MM / 2 - 1
        move = {
            "rotate_range": 0.2,
            "shear_range": 0.04,
            "translate_range": 4.0,
            "spatial_size": SHAPE,
        }
        move |= {
            "scale_range": [(zoom - 0.15, zoom + 0.15)] * 3,
            "mode": ("bilinear", "nearest", "nearest"),
        }
        flip = RandFlipd(keys, prob=0.5, spatial_axis=0)
        self.move = Compose([flip, RandAffined(keys, prob=1.0, **move, padding_mode="zeros")])
        self.views = views(synthesised)

    def at(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return image (1, 1, D, H, W) and regions of a step, which depend on its number alone."""
        seed = derive_seed("segmenter", self.seed, step)
        for transform in (self.move, self.views):
            transform.set_random_state(seed=seed % 2**32)
        who = seed % len(self.brains)
        image, codes = self.brains[who].float(), self.codes[who].float()
        moved = self.move({"image": image, "codes": codes, "brain": (image > 0).float()})
        image, codes, brain = (moved[key].as_tensor() for key in ("image", "codes", "brain"))
        codes = codes[0].long()
        maps = torch.nn.functional.one_hot(self.signals[codes], len(SIGNALS) + 1)[..., 1:].permute(
            3, 0, 1, 2
        )
        image = self.views({"image": torch.cat([image * brain, maps.float()])})["image"]
        regions = self.regions[codes].clamp(min=1) * (image[0] > 0)
        return normalised(image)[None], regions[None, None]


def normalised(image: torch.Tensor) -> torch.Tensor:
    """Return a brain z-scored within itself."""
    return torch.as_tensor(NormalizeIntensity(nonzero=True)(image))


def network() -> BasicUNet:
    """Return the network, untrained."""
    return BasicUNet(3, 1, len(REGIONS) + 1, FEATURES).to(memory_format=torch.channels_last_3d)


def train(examples: Examples, steps: int) -> BasicUNet:
    """Return the network after as many steps of one brain each."""
    net, loss = network(), DiceCELoss(include_background=False, to_onehot_y=True, softmax=True)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 3e-3, total_steps=steps, pct_start=0.1
    )
    recent = []
    for step in range(steps):
        image, regions = examples.at(step)
        with torch.autocast("cpu", torch.bfloat16):
            logits = net(image.contiguous(memory_format=torch.channels_last_3d))
        value = loss(logits.float(), regions)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        schedule.step()
        recent.append(float(value))
        if step % 50 == 49:
            print(f"step {step + 1}: loss {np.mean(recent[-50:]):.3f}", flush=True)
    return net.eval()


@torch.inference_mode()
def probabilities(net: BasicUNet, voxels: Floats, affine: Affine) -> tuple[Floats, Affine]:
    """Return the probability of each region in a brain in MNI space, (regions, D, H, W), 0 outside; and the affine."""
    grid, shape = mni_grid(SPACING_MM)
    inside = resample_to_grid(voxels > 0, affine, IN_PLACE, grid, shape) > 0.5
    # As in training, the brain is in the middle of the window: the network tells places by its
    # borders too.
    middle = [
        int(side[[0, -1]].mean()) for side in (np.unique(each) for each in np.nonzero(inside))
    ]
    window = grid.copy()
    window[:3, 3] += SPACING_MM * (np.array(middle) - np.array(SHAPE) // 2)
    mask = resample_to_grid(voxels > 0, affine, IN_PLACE, window, SHAPE) > 0.5
    image = torch.from_numpy(resample_to_grid(voxels, affine, IN_PLACE, window, SHAPE) * mask)[None]
    with torch.autocast("cpu", torch.bfloat16):
        logits = net(normalised(image)[None].contiguous(memory_format=torch.channels_last_3d))[
            0, 1:
        ]
    found = logits.float().softmax(0).numpy() * mask
    return np.stack([resample_to_grid(each, window, IN_PLACE, grid, shape) for each in found]), grid


def tissue(regions: Floats) -> list[Floats]:
    """Return grey matter, white matter and fluid of the regions' probabilities."""
    fluid, ventricles, cortex, deep, cerebellum, white = regions
    return [cortex + deep + cerebellum, white, fluid + ventricles]


def read(path: Path) -> tuple[Floats, Affine]:
    """Return voxels in RAS order and their affine."""
    image = nib.as_closest_canonical(nib.load(path))
    return image.get_fdata(dtype=np.float32), image.affine


def overlaps(
    maps: list[Floats], codes: npt.NDArray[np.int64], mask: npt.NDArray[np.bool_]
) -> dict[str, float]:
    """Return Dice of grey and white matter; "no stem" where the labels' brain stem is left out."""
    hard, stem = np.stack(maps).argmax(axis=0), np.isin(codes, STEM)
    found = {}
    for name, number, labels in (("grey", 0, GREY), ("white", 1, WHITE)):
        ours = (hard == number) & mask
        found[name] = dice(ours, np.isin(codes, labels))
        found[f"{name}, no stem"] = dice(ours & ~stem, np.isin(codes, labels))
    return found


def main_train(options: argparse.Namespace) -> None:
    """Train, unless done, and print the overlaps of the people held out."""
    set_determinism(options.seed)
    torch.set_num_threads(1)
    labels = pd.read_csv(options.data / "labels" / "labels.tsv", sep="\t")
    brains = pd.read_csv(options.data / "brains" / "participants.tsv", sep="\t").set_index(
        "participant_id"
    )
    labels["brain"] = [
        str(options.data / "brains" / brains.loc[each, "path"]) for each in labels["participant_id"]
    ]
    labels["path"] = [str(options.data / "labels" / path) for path in labels["path"]]
    held = labels.index.isin(labels.index[3::6])
    learned = labels[~held]
    path = options.out / "segmenter.safetensors"
    options.out.mkdir(parents=True, exist_ok=True)
    if not path.is_file():
        pairs = [
            (read(row.brain)[0][WINDOW], read(row.path)[0][WINDOW]) for row in learned.itertuples()
        ]
        images = [torch.from_numpy(brain.astype(np.uint8))[None] for brain, _ in pairs]
        codes = [torch.from_numpy(code.astype(np.uint8))[None] for _, code in pairs]
        net = train(Examples(images, codes, options.synthesised, options.seed), options.steps)
        digest = digest_of([Path(each).read_bytes().hex() for each in learned["path"]])
        about = {
            "seed": options.seed,
            "steps": options.steps,
            "synthesised": options.synthesised,
            "labels": digest,
        }
        with atomic_path(path) as temporary:
            save_file({name: each.half().contiguous() for name, each in net.state_dict().items()}, temporary,
                      metadata={"about": json.dumps(about)})  # fmt: skip
    net = load(path)
    rows = []
    for row in labels[held].head(options.held).itertuples():
        voxels, affine = read(row.brain)
        codes, mask = read(row.path)[0].astype(int), voxels > 0
        regions, grid = probabilities(net, voxels, affine)
        regions = np.stack(
            [resample_to_grid(each, grid, IN_PLACE, affine, mask.shape) for each in regions]
        )
        found = segment_tissue(voxels, mask, tissue_priors(affine, voxels.shape))
        rows.append({"how": "EM", **overlaps([found.grey, found.white, found.fluid], codes, mask)})
        ours = look_up(list(REGIONS.values()), 1).numpy()[codes]
        each = {name: dice(((regions.argmax(axis=0) + 1) == k) & mask, ours == k)
                for k, name in enumerate(REGIONS, start=1) if k > 1}  # fmt: skip
        rows.append({"how": "segmenter", **overlaps(tissue(regions), codes, mask), **each})
    frame = pd.DataFrame(rows).groupby("how")
    print(frame.mean().round(3).T.to_string(), frame.min().round(3).T.to_string(), sep="\nlowest\n")


def load(path: Path) -> BasicUNet:
    """Return a trained network."""
    net = network()
    net.load_state_dict({name: each.float() for name, each in load_file(path).items()})
    return net.eval()


def main_segment(options: argparse.Namespace) -> None:
    """Write tissue maps of a prepared cohort, of imitations of london's people alone, and volumes of regions."""
    torch.set_num_threads(1)
    net, folder = load(options.out / "segmenter.safetensors"), options.out / "images"
    folder.mkdir(exist_ok=True)
    volumes: dict[str, list[float]] = {}
    for name in ("participants", "imitations"):
        table = pd.read_csv(
            options.prepared / f"{name}.tsv", sep="\t", dtype=str, keep_default_na=False
        )
        if name == "imitations":
            table = table[table["site"] == HOME]
        for number, path in enumerate(table["path"]):
            stem = Path(path).name.removesuffix("_brain.nii.gz")
            volumes[stem] = segment(net, options.prepared / path, folder, stem)
            if number % 50 == 49:
                print(f"{name}: {number + 1} of {len(table)}", flush=True)
        for tissue_name in ("gm", "wm", "csf"):
            table[tissue_name] = [
                path.replace("_brain.", f"_{tissue_name}.") for path in table["path"]
            ]
        table["path"] = [str((options.prepared / path).resolve()) for path in table["path"]]
        table.to_csv(options.out / f"{name}.tsv", sep="\t", index=False)
    made = pd.DataFrame.from_dict(volumes, orient="index", columns=list(REGIONS))
    made.rename_axis("scan").to_csv(options.out / "volumes.tsv", sep="\t")


def main_compare(options: argparse.Namespace) -> None:
    """Print what the linear systems of `tissue.py` reach on these maps, and the differences from its own."""
    (options.out / "systems").mkdir(exist_ok=True)
    warnings.simplefilter(
        "ignore"
    )  # of the median age, which has no ranks, and of processes without noise
    study, found = Study(options.out, options.out / "systems", None), []
    volumes = pd.read_csv(options.out / "volumes.tsv", sep="\t", index_col="scan")
    stems = [Path(path).name.removesuffix("_brain.nii.gz") for path in study.table["path"]]
    for seed in range(options.seeds):
        probed, places = study.rows(HOME, seed)
        for name in FIVE:
            study.features(name, HOME, seed)
        predicted = predictions(np.log(volumes.loc[stems].to_numpy()), study.table, probed)
        rows = study._rows_of(predicted, places, system="volumes of six regions").assign(
            learned=HOME, seed=seed
        )
        found += [rows, study.tested(HOME, seed, only_there=True)]
    ours, theirs = pd.concat(found), pd.read_csv(options.tissue / "predictions.tsv", sep="\t")
    theirs = theirs[(theirs["learned"] == HOME) & (theirs["seed"] < options.seeds)]
    theirs = theirs[theirs["system"].isin([*ours["system"], "regional volumes"])]
    parts = ["by expectation-maximisation", table_of(theirs), "by the segmenter", table_of(ours)]
    parts += [
        "| segmenter − expectation-maximisation | at home | novosibirsk | ucla | both new sites |",
        "|---" * 5 + "|",
    ]
    for name, one in ours.groupby("system", sort=False):
        other, cells = theirs[theirs["system"] == name], []
        if other.empty:
            continue
        for where in ([PLACES[0]], [NEW[0]], [NEW[1]], list(NEW)):
            cells.append(
                "{:+.1f} [{:+.1f}, {:+.1f}]".format(*difference(one, other, where, mae_of)).replace(
                    "-", "−"
                )
            )
        parts.append(f"| {name} | " + " | ".join(cells) + " |")
    print("\n".join(parts))


def segment(net: BasicUNet, path: Path, folder: Path, stem: str) -> list[float]:
    """Write the tissue maps of one brain, unless they are there; return the volume of each region in millilitres."""
    record = folder / f"{stem}.json"
    if not record.is_file():
        regions, affine = probabilities(net, *read(path))
        for name, each in zip(("gm", "wm", "csf"), tissue(regions), strict=True):
            image = nib.Nifti1Image(np.round(each * 255).astype(np.uint8), affine)
            image.header.set_slope_inter(1 / 255, 0)
            nib.save(image, folder / f"{stem}_{name}.nii.gz")
        record.write_text(json.dumps((regions.sum(axis=(1, 2, 3)) * SPACING_MM**3 / 1000).tolist()))
    return list(json.loads(record.read_text()))


def main() -> None:
    """Train, segment, or compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    training = commands.add_parser("train")
    training.add_argument("--data", type=Path, required=True)
    training.add_argument("--steps", type=int, default=700)
    training.add_argument("--synthesised", type=float, default=0.3)
    training.add_argument("--held", type=int, default=20)
    training.add_argument("--seed", type=int, default=0)
    training.set_defaults(run=main_train)
    segmenting = commands.add_parser("segment")
    segmenting.add_argument("--prepared", type=Path, required=True)
    segmenting.set_defaults(run=main_segment)
    comparing = commands.add_parser("compare")
    comparing.add_argument("--tissue", type=Path, required=True)
    comparing.add_argument("--seeds", type=int, default=3)
    comparing.set_defaults(run=main_compare)
    for command in (training, segmenting, comparing):
        command.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()

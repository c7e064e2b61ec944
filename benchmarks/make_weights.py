"""Make the weights that ship with the package, and their cards, in `neurocontrast/weights`.

    neurocontrast prepare ../shared/data/brains/participants.tsv --out PREPARED --spacing-mm 2
    --imitations 3 python benchmarks/make_weights.py brain-maps-lda --prepared PREPARED --work WORK
    python benchmarks/make_weights.py brain-maps --prepared PREPARED --work WORK

brain-maps-lda: the encoder is the recipe tissue_discriminants, fitted to PREPARED/imitations.tsv: all healthy
people of london and ucla, each as four acquisitions. Probes of age (ridge) and of sex (logistic
regression) are fitted to the real scans of the same people. novosibirsk, a scanner that nothing was
learned from, is what the card's figures are of. Voxels where hardly anybody has tissue are left
out, and weights are stored in half precision. The same PREPARED, seed and versions give the same
bytes of weights.

brain-maps: linear encoders and networks of `tissue_systems.py`, learned from the same people and
joined; a probe is fitted to each, and their predictions averaged. `tissue.py` judges such runs;
none ships yet.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors.torch
import torch
from joined_weights import join_encoders, train_encoders
from sklearn.metrics import roc_auc_score

import neurocontrast
from neurocontrast.data.settings import DataSettings
from neurocontrast.datasets import load_sample
from neurocontrast.embedding import read_embeddings
from neurocontrast.encoders import read_contract
from neurocontrast.encoders.members import read_record
from neurocontrast.encoders.weights import folder_of_member
from neurocontrast.evaluation import load_probe
from neurocontrast.files import atomic_folder, digest_of_file, write_json, write_text
from neurocontrast.progress import SILENT
from neurocontrast.runs.answer import features_of, ranges_of, write_answer
from neurocontrast.runs.networks import load_networks, sources_of

ROOT = Path(__file__).resolve().parents[1]
TARGETS = ("age", "sex")
LEARNED_FROM, NEW = ("london", "ucla"), ("novosibirsk",)
LICENCE = "CC BY-SA 3.0"
SEED, N_BOOTSTRAPS = 0, 2000
ANSWER_OF = "sub-ds002748x01"
"""Person of the sample cohort (CC0) whose features and predictions are stated next to the weights."""
MEAN = "features.layers.mean"
"""Tensor that linear encoders alone have."""
PUBLIC = (
    "format",
    "seed",
    "joined",
    "n_members",
    "cohort",
    "cohorts",
    "simulated",
    "n_training_scans",
    "preprocessing",
    "pretraining_subjects",
    "pretraining_contents",
    "pretraining_contents_complete",
)
"""Keys of ``provenance.json`` that are kept."""
FAINT = 0.01
"""Voxels where a map is less than this on average, mostly outside the brain, are left out: two thousandths of the
squared loadings, and two fifths of the file."""


def make_run(prepared: Path, work: Path) -> Path:
    """Fit the encoder, unless that is done."""
    overrides = [
        f"data.participants={prepared / 'imitations.tsv'}",
        f"seed={SEED}",
        "data.n_workers=1",
    ]
    overrides += [
        f"data.cache_dir={work / 'cache'}",
        f"data.where={{site: [{', '.join(LEARNED_FROM)}]}}",
    ]
    config = neurocontrast.load_config(ROOT / "configs/brain/tissue_discriminants.yaml", overrides)
    return neurocontrast.pretrain(config, out=work / "run", resume=True)


def shrink(run: Path, folder: Path) -> dict[str, Any]:
    """Write the run's encoder in half precision, with what is public of its provenance; return its description.

    Of a linear encoder faint voxels are left out; a network's projection head stays behind.
    """
    tensors = safetensors.torch.load_file(run / "encoder.safetensors")
    contract = {**read_contract(run), "licence": LICENCE}
    contract.pop("head", None)
    if MEAN in tensors:
        kept = tensors[MEAN] >= FAINT
        tensors = {name: each[..., kept] for name, each in tensors.items()}
        contract["n_voxels"] = int(kept.sum())
    small = {
        name: (each.half() if each.is_floating_point() else each).contiguous()
        for name, each in tensors.items()
    }
    (folder / "encoder.safetensors").write_bytes(safetensors.torch.save(small))
    write_public(json.loads((run / "provenance.json").read_text()), folder)
    contract |= {"provenance": digest_of_file(folder / "provenance.json")}
    contract["weights"] = {
        "file": "encoder.safetensors",
        "sha256": digest_of_file(folder / "encoder.safetensors"),
    }
    write_json(folder / "encoder.json", contract)
    return contract


def write_public(provenance: dict[str, Any], folder: Path) -> None:
    """Write the keys of a run's provenance that say nothing of the machine."""
    versions = {
        name: provenance["environment"][name] for name in ("neurocontrast", "python", "packages")
    }
    content = {"environment": versions}
    for key in PUBLIC:
        if key in provenance:
            content[key] = provenance[key]
    write_json(folder / "provenance.json", content)


def embed(folder: Path, prepared: Path, work: Path, sites: tuple[str, ...]) -> Path:
    """Embed the real scans of some sites."""
    return neurocontrast.embed(
        folder,
        participants=prepared / "participants.tsv",
        out=work / f"{sites[0]}.parquet",
        config={
            "embedding": {"where": {"site": list(sites)}},
            "data": {"cache_dir": str(work / "cache")},
        },
        overwrite=True,
    )


def fit_probe(embeddings: Path, target: str, work: Path, folder: Path) -> None:
    """Fit a probe on all of these scans and keep it; how well it does elsewhere is measured elsewhere."""
    options = {"voxels": "off", "confounds": False, "n_bootstraps": 0, "allow_overlap": True}
    known = read_embeddings(embeddings).table[target].notna()
    assert known.sum() > 100, target
    evaluation = neurocontrast.evaluate(
        embeddings, out=work / target, target=target, overwrite=True, **options
    )
    shutil.copytree(evaluation / "probe", folder / target)


def state_answer(folder: Path) -> None:
    """Put a public scan of the sample cohort next to the weights, with its features and predictions, all by itself.

    What training scans were like is measured on those in the sample: 80 of the 137 people, at 4 mm.
    """
    table = load_sample().table.set_index("participant_id")
    networks = load_networks(folder)
    sources = sources_of(networks, DataSettings(), what="the answer is of brains")
    widest = max(sources, key=attrgetter("n_channels"))
    (folder / "answer").mkdir(exist_ok=True)
    files = {}
    for channel in widest.channels:
        files[channel] = f"answer/{channel}.nii.gz"
        shutil.copy(table.loc[ANSWER_OF, channel], folder / files[channel])
    of_networks = []
    for network, source in zip(networks, sources, strict=True):
        scan = tuple(str(folder / files[channel]) for channel in source.channels)
        of_networks.append(features_of(network.encoder, source, [scan]))
    features = np.concatenate(of_networks)
    predictions = {place.parent.name: float(load_probe(place.parent).predict(features[None])[0])
                   for place in sorted(folder.glob("*/probe.json"))}  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        source = widest.kept_in(Path(scratch))
        people = table[table["site"].isin(LEARNED_FROM)]
        cohort = source.cohort_of(people[list(source.channels)], Path(scratch))
        source.make_ready(cohort, SILENT)
        ranges = ranges_of(source, cohort)
    write_answer(folder, list(files.values()), features, predictions, ranges)


def measure(folder: Path, embeddings: Path, work: Path) -> dict[str, str]:
    """Return the figures of the card: people of the new scanner, with intervals over people."""
    truth = read_embeddings(embeddings).table.set_index("participant_id")
    figures = {}
    for target in TARGETS:
        out = neurocontrast.predict(
            folder / target, embeddings, out=work / f"{target}.tsv", overwrite=True
        )
        found = pd.read_csv(out, sep="\t").set_index("participant_id")
        score, true = found["y_score"].to_numpy(float), truth.loc[found.index, target]
        generator, rows = np.random.default_rng(SEED), np.arange(len(found))
        draws = [generator.choice(rows, len(rows)) for _ in range(N_BOOTSTRAPS)]
        if target == "age":
            errors = score - true.to_numpy(float)
            figures["mae"] = _with_interval(
                [np.abs(errors[draw]).mean() for draw in [rows, *draws]], 1
            )
            figures["own_mean"] = f"{np.abs(true - true.mean()).mean():.1f}"
            figures["bias"] = _with_interval([errors[draw].mean() for draw in [rows, *draws]], 1)
        else:
            positive = json.loads((folder / target / "probe.json").read_text())["classes"][-1]
            is_positive = (true == positive).to_numpy()
            figures["auc"] = _with_interval(
                [roc_auc_score(is_positive[d], score[d]) for d in [rows, *draws]], 2
            )
    return figures


def _with_interval(values: list[float], digits: int) -> str:
    low, high = np.quantile(values[1:], [0.025, 0.975])
    return f"{values[0]:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def write_card(folder: Path, prepared: Path, template: str, figures: dict[str, str]) -> None:
    """Fill in the card."""
    people = pd.read_csv(prepared / "participants.tsv", sep="\t").drop_duplicates("subject_id")
    rows = [f"| {site} | {_people(people[people['site'] == site])} |" for site in LEARNED_FROM]
    cohort = json.loads((folder / "provenance.json").read_text())["cohort"]
    text = (ROOT / "benchmarks" / template).read_text(encoding="utf-8")
    facts = {
        "sites": "\n".join(rows),
        "new_people": _people(people[people["site"].isin(NEW)])
        .replace(" (", " people (")
        .replace(" | ", ", ages "),
        "cohort": cohort["digest"],
        "n_scans": cohort["n_scans"],
        "n_subjects": cohort.get("n_subjects"),
        "seed": SEED,
        "version": neurocontrast.__version__,
        **figures,
    }
    write_text(folder / "README.md", text.format(**facts))


def _people(rows: pd.DataFrame) -> str:
    ages, women = rows["age"].dropna(), int((rows["sex"] == "F").sum())
    return (
        f"{len(rows)} ({women} women) | {ages.min():.0f}–{ages.max():.0f}, mean {ages.mean():.0f}"
    )


def make_discriminants(folder: Path, prepared: Path, work: Path) -> dict[str, str]:
    """Write brain-maps-lda, and return the figures of its card."""
    contract = shrink(make_run(prepared, work), folder)
    figures = add_probes(folder, prepared, work)
    facts = {
        "weights": contract["weights"]["sha256"],
        "n_voxels": f"{contract['n_voxels']:,}",
        **figures,
    }
    write_card(folder, prepared, "brain_maps_card.md", facts)
    return figures


def make_joined(folder: Path, prepared: Path, work: Path) -> dict[str, str]:
    """Write brain-maps, and return the figures of its card."""
    runs = train_encoders(prepared, work, LEARNED_FROM, SEED)
    joined = join_encoders(runs, work / "joined", shrink)
    shutil.copytree(joined, folder, dirs_exist_ok=True)
    write_public(json.loads((joined / "provenance.json").read_text()), folder)
    figures = add_probes(folder, prepared, work)
    for target in TARGETS:
        shrink_probe(folder / target)
    record = read_record(folder)
    digests = record.weights or ()
    members = []
    for number, member in enumerate(record.joined or ()):
        contract = read_contract(folder_of_member(folder, number))
        columns = ", ".join(contract["channels"])
        smooth = contract["preprocessing"]["smooth_mm"]
        members.append(
            f"| {number} | {member.encoder} | {columns}; {smooth:g} mm | {contract['n_features']:,} |"
        )
    facts = {
        "members": "\n".join(
            ["| member | encoder | maps, smoothed by | features |", "|---|---|---|---|", *members]
        ),
        "weights": ", ".join(f"`{digest:.12}…`" for digest in digests),
        **figures,
    }
    write_card(folder, prepared, "brain_maps_joined_card.md", facts)
    return figures


def add_probes(folder: Path, prepared: Path, work: Path) -> dict[str, str]:
    """Fit the probes, state the known answer, and return the figures at the new scanner."""
    learned = embed(folder, prepared, work, LEARNED_FROM)
    for target in TARGETS:
        fit_probe(learned, target, work, folder)
    state_answer(folder)
    return measure(folder, embed(folder, prepared, work, NEW), work)


def shrink_probe(folder: Path) -> None:
    """Store the axes of a probe's distribution in half precision, and all else in single precision."""
    about = json.loads((folder / "probe.json").read_text())
    arrays = {}
    with np.load(folder / "probe.npz") as stored:
        for name, array in stored.items():
            arrays[name] = array.astype(np.float16 if name == "inside_axes" else np.float32)
    np.savez(folder / "probe.npz", **arrays)
    about["arrays"]["sha256"] = digest_of_file(folder / "probe.npz")
    write_json(folder / "probe.json", about)


MAKERS = {"brain-maps-lda": make_discriminants, "brain-maps": make_joined}


def main() -> None:
    """Make everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=MAKERS, help="weights to make")
    parser.add_argument(
        "--prepared", type=Path, required=True, help="folder that `prepare --imitations 3` wrote"
    )
    parser.add_argument(
        "--work", type=Path, required=True, help="folder for what is made on the way"
    )
    parser.add_argument("--out", type=Path, help="folder to write; that of the package by default")
    options = parser.parse_args()
    torch.set_num_threads(1)
    out = options.out or ROOT / "neurocontrast/weights" / options.name
    options.work.mkdir(parents=True, exist_ok=True)
    with atomic_folder(out) as folder:
        figures = MAKERS[options.name](folder, options.prepared, options.work)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{out}: {size / 1e6:.1f} MB", figures)


if __name__ == "__main__":
    main()

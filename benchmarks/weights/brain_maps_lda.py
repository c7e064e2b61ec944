"""Make the weights that ship with the package, and their card: `neurocontrast/weights/brain-maps-lda`.

    neurocontrast prepare ../shared/data/brains/participants.tsv --out PREPARED --spacing-mm 2
    --imitations 3 python -m benchmarks.weights.brain_maps_lda --prepared PREPARED --work WORK

The encoder is the recipe tissue_discriminants, fitted to PREPARED/imitations.tsv: all healthy
people of london and ucla, each as four acquisitions. Probes of age (ridge) and of sex (logistic
regression) are fitted to the real scans of the same people. novosibirsk, a scanner that nothing was
learned from, is what the card's figures are of. Voxels where hardly anybody has tissue are left
out, and weights are stored in half precision. The same PREPARED, seed and versions give the same
bytes of weights.
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
from sklearn.metrics import roc_auc_score

import neurocontrast
from benchmarks.weights.publishing import halve, people_text, publish_provenance, with_interval
from neurocontrast.data.settings import DataSettings
from neurocontrast.datasets import load_sample
from neurocontrast.embedding import read_embeddings
from neurocontrast.encoders import read_contract
from neurocontrast.evaluation import load_probe
from neurocontrast.files import atomic_folder, write_json, write_text
from neurocontrast.progress import SILENT
from neurocontrast.runs.answer import features_of, ranges_of, write_answer
from neurocontrast.runs.networks import load_networks, sources_of

ROOT = Path(__file__).resolve().parents[2]
NAME = "brain-maps-lda"
LEARNED_FROM, NEW = ("london", "ucla"), ("novosibirsk",)
LICENCE = "CC BY-SA 3.0"
TARGETS = ("age", "sex")
SEED, N_BOOTSTRAPS = 0, 2000
ANSWER_OF = "sub-ds002748x01"
"""Person of the sample cohort (CC0) whose features and predictions are stated next to the weights."""
MEAN = "features.layers.mean"
"""Tensor that linear encoders alone have."""
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

    Of a linear encoder faint voxels are left out; the projection head of a network stays behind.
    """
    tensors = safetensors.torch.load_file(run / "encoder.safetensors")
    contract = {**read_contract(run).content(), "licence": LICENCE}
    contract.pop("head", None)
    if MEAN in tensors:
        kept = tensors[MEAN] >= FAINT
        tensors = {name: tensor[..., kept] for name, tensor in tensors.items()}
        contract["n_voxels"] = int(kept.sum())
    contract["weights"] = halve(tensors, folder / "encoder.safetensors")
    contract["provenance"] = publish_provenance(run, folder)
    write_json(folder / "encoder.json", contract)
    return contract


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
    """Put a public scan of the sample cohort next to the weights, with its features and predictions.

    Ranges of training scans are measured on those in the sample: 80 of the 137 people, at 4 mm.
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
    predictions = {}
    for target in TARGETS:
        predictions[target] = float(load_probe(folder / target).predict(features[None])[0])
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
            figures["mae"] = with_interval(
                [np.abs(errors[draw]).mean() for draw in [rows, *draws]], 1
            )
            figures["own_mean"] = f"{np.abs(true - true.mean()).mean():.1f}"
            figures["bias"] = with_interval([errors[draw].mean() for draw in [rows, *draws]], 1)
        else:
            positive = json.loads((folder / target / "probe.json").read_text())["classes"][-1]
            is_positive = (true == positive).to_numpy()
            figures["auc"] = with_interval(
                [roc_auc_score(is_positive[d], score[d]) for d in [rows, *draws]], 2
            )
    return figures


def write_card(
    folder: Path, prepared: Path, contract: dict[str, Any], figures: dict[str, str]
) -> None:
    """Fill in the card."""
    cohort = json.loads((folder / "provenance.json").read_text())["cohort"]
    text = Path(__file__).with_name("brain_maps_lda_card.md").read_text(encoding="utf-8")
    facts = {
        **people_of_card(prepared),
        "cohort": cohort["digest"],
        "n_scans": cohort["n_scans"],
        "n_subjects": cohort["n_subjects"],
        "seed": SEED,
        "weights": contract["weights"]["sha256"],
        "version": neurocontrast.__version__,
        "n_voxels": f"{contract['n_voxels']:,}",
        **figures,
    }
    write_text(folder / "README.md", text.format(**facts))


def people_of_card(prepared: Path) -> dict[str, str]:
    """Return the people learned from, a row a site, and those of the new scanner, as cards say them."""
    people = pd.read_csv(prepared / "participants.tsv", sep="\t").drop_duplicates("subject_id")
    rows = []
    for site in LEARNED_FROM:
        rows.append(f"| {site} | {_people(people[people['site'] == site])} |")
    new_people = _people(people[people["site"].isin(NEW)])
    return {
        "sites": "\n".join(rows),
        "new_people": new_people.replace(" (", " people (").replace(" | ", ", ages "),
    }


def _people(rows: pd.DataFrame) -> str:
    return "{n} ({women} women) | {ages}, mean {mean}".format(**people_text(rows))


def main() -> None:
    """Make everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--prepared", type=Path, required=True, help="folder that `prepare --imitations 3` wrote"
    )
    parser.add_argument(
        "--work", type=Path, required=True, help="folder for what is made on the way"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "neurocontrast/weights" / NAME)
    given = parser.parse_args()
    torch.set_num_threads(1)
    run = make_run(given.prepared, given.work)
    with atomic_folder(given.out) as folder:
        contract = shrink(run, folder)
        learned = embed(folder, given.prepared, given.work, LEARNED_FROM)
        for target in TARGETS:
            fit_probe(learned, target, given.work, folder)
        state_answer(folder)
        figures = measure(folder, embed(folder, given.prepared, given.work, NEW), given.work)
        write_card(folder, given.prepared, contract, figures)
    size = sum(path.stat().st_size for path in given.out.rglob("*") if path.is_file())
    print(f"{given.out}: {size / 1e6:.1f} MB", figures)


if __name__ == "__main__":
    main()

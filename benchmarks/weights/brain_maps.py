"""Make the weights `brain-maps`, and their card: `weights/brains`.

    neurocontrast prepare ../shared/data/brains/participants.tsv --out PREPARED --spacing-mm 2
    --imitations 3
    python -m benchmarks.weights.brain_maps --prepared PREPARED --work WORK

Five linear encoders of smoothed tissue maps, and five small networks of conditional alignment +
uniformity whose views shift the maps, learn from the healthy people of london and ucla; they are
joined as one run, whose probes' predictions are averaged. `tissue.py` judges this run beside
others with london alone learned from. WORK keeps what is finished, and the same command goes on
there.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import roc_auc_score

import neurocontrast
from benchmarks.tissue.systems import FIVE, linear, network
from benchmarks.weights.brain_maps_lda import (
    LEARNED_FROM,
    N_BOOTSTRAPS,
    NEW,
    ROOT,
    SEED,
    TARGETS,
    embed,
    fit_probe,
    measure,
    people_of_card,
    shrink,
    state_answer,
)
from benchmarks.weights.publishing import (
    check_no_identifiers,
    install_weights,
    publish_provenance,
    with_interval,
)
from neurocontrast import weights
from neurocontrast.data.settings import DataSettings
from neurocontrast.embedding import read_embeddings
from neurocontrast.encoders import read_contract
from neurocontrast.encoders.members import members_of, read_record, write_members
from neurocontrast.encoders.weights import folder_of_member
from neurocontrast.files import atomic_folder, digest_of_file, write_json, write_text
from neurocontrast.runs.answer import features_of, phantom_of, write_answer
from neurocontrast.runs.networks import load_networks, sources_of

PACKAGE = ROOT / "weights" / "brains" / "neurocontrast_weights_brains"
NETWORKS = "networks"
"""Name of the run of networks."""
NETWORK = "conditional, tissue_shift"
N_NETWORKS = 5
MOST_BYTES = 50e6


def train_encoders(prepared: Path, work: Path, sites: Sequence[str], seed: int) -> dict[str, Path]:
    """Fit the linear encoders, and train the networks, unless that is done; return the runs by name.

    Principal components learn from real scans alone, discriminants and networks from imitated ones
    too, and networks from people whose age is known.
    """
    runs = {}
    for name in FIVE:
        table = "imitations.tsv"
        if name.startswith("pca"):
            table = "participants.tsv"
        short = name.replace(",", "").replace(" + ", "-").replace(" ", "-")
        runs[short] = _train(linear(name), prepared / table, work / short, sites, seed)
    config = network(NETWORK)
    config["training"]["members"] = N_NETWORKS
    table = _people_of_known_age(prepared, work / "of_known_age.tsv")
    runs[NETWORKS] = _train(config, table, work / NETWORKS, sites, seed)
    return runs


def _people_of_known_age(prepared: Path, out: Path) -> Path:
    """Write the imitated and real scans of people whose age is known, with absolute paths."""
    table = pd.read_csv(prepared / "imitations.tsv", sep="\t", dtype=str, keep_default_na=False)
    table = table[table["age"] != "n/a"]
    for column in ("path", "gm", "wm", "csf"):
        table[column] = [str((prepared / path).resolve()) for path in table[column]]
    table.to_csv(out, sep="\t", index=False)
    return out


def _train(config: dict[str, Any], table: Path, run: Path, sites: Sequence[str], seed: int) -> Path:
    data = {
        **config["data"],
        "participants": str(table),
        "where": {"site": list(sites)},
        "cache_dir": str(run.parent / "cache"),
    }
    trained = neurocontrast.pretrain(
        {**config, "seed": seed, "data": data}, out=run, resume=run.is_dir()
    )
    return Path(trained.location)


def join_encoders(runs: dict[str, Path], work: Path) -> Path:
    """Write each encoder in half precision with its known answer, and join all; return the run.

    The answer is the features of the phantom in half precision, not those that training stated.
    """
    small = {}
    for name, run in runs.items():
        small[name] = work / f"small-{name}"
        members = members_of(run)
        for number, member in enumerate(members):
            target = small[name]
            if len(members) > 1:
                target = folder_of_member(small[name], number)
            target.mkdir(parents=True, exist_ok=True)
            shrink(member, target)
            _answer_phantom(target)
        if len(members) > 1:
            _record_members(run, small[name])
    folders = list(small.values())
    return neurocontrast.join(folders, names=list(small), out=work / "joined", overwrite=True)


def _answer_phantom(folder: Path) -> None:
    networks = load_networks(folder)
    source = sources_of(networks, DataSettings(), what="the answer is of brains")[0]
    features = features_of(networks[0].encoder, source, phantom_of(source))
    write_answer(folder, None, features, {}, {})


def _record_members(run: Path, small: Path) -> None:
    """Write ``members.json`` of a run whose weights have been made smaller, and its provenance."""
    record = read_record(run)
    digests = []
    for number in range(len(record.seeds)):
        digests.append(digest_of_file(folder_of_member(small, number) / "encoder.safetensors"))
    write_members(small, record.model_copy(update={"weights": tuple(digests)}))
    shutil.copyfile(run / "provenance.json", small / "provenance.json")


def shrink_probe(folder: Path) -> None:
    """Store the axes of a probe's distribution in half precision, and all else in single precision."""
    record = json.loads((folder / "probe.json").read_text())
    arrays = {}
    with np.load(folder / "probe.npz", allow_pickle=False) as stored:
        for name, array in stored.items():
            precision = np.float16 if name == "inside_axes" else np.float32
            arrays[name] = array.astype(precision)
    np.savez(folder / "probe.npz", **arrays)
    record["arrays"]["sha256"] = digest_of_file(folder / "probe.npz")
    write_json(folder / "probe.json", record)


def compare(work: Path, of_discriminants: Path, embeddings: Path) -> dict[str, str]:
    """Return how age and sex at the new scanner differ from those by brain-maps-lda, for the card.

    Both folders hold the predictions that `measure` wrote; intervals are over people.
    """
    truth = read_embeddings(embeddings).table.set_index("participant_id")
    scores = {}
    for target in TARGETS:
        both = []
        for predicted in (work, of_discriminants):
            table = pd.read_csv(predicted / f"{target}.tsv", sep="\t", index_col="participant_id")
            both.append(table["y_score"].loc[truth.index].to_numpy(dtype=float))
        scores[target] = both
    outside = pd.read_csv(work / "age.tsv", sep="\t")["outside"]
    errors = np.abs(np.array(scores["age"]) - truth["age"].to_numpy(dtype=float))
    is_male = (truth["sex"] == "M").to_numpy()
    generator = np.random.default_rng(SEED)
    rows = np.arange(len(truth))
    years = []
    aucs = []
    for draw in [rows, *(generator.choice(rows, len(rows)) for _ in range(N_BOOTSTRAPS))]:
        years.append((errors[0] - errors[1])[draw].mean())
        ours = roc_auc_score(is_male[draw], scores["sex"][0][draw])
        aucs.append(ours - roc_auc_score(is_male[draw], scores["sex"][1][draw]))
    return {
        "fewer_years": with_interval(years, 1),
        "more_auc": with_interval(aucs, 2),
        "n_outside": f"{int(outside.sum())} of {len(outside)}",
    }


def write_card(folder: Path, prepared: Path, figures: dict[str, str]) -> None:
    """Fill in the card."""
    record = read_record(folder)
    rows = ["| member | encoder | maps, smoothed by | features |", "|---|---|---|---|"]
    for number, member in enumerate(record.joined or ()):
        contract = read_contract(folder_of_member(folder, number))
        columns = ", ".join(contract.channels)
        smooth = contract.preprocessing.smooth_mm
        rows.append(
            f"| {number} | {member.encoder} | {columns}; {smooth:g} mm | {contract.n_features:,} |"
        )
    text = Path(__file__).with_name("brain_maps_card.md").read_text(encoding="utf-8")
    facts = {
        **people_of_card(prepared),
        "members": "\n".join(rows),
        "cohort": json.loads((folder / "provenance.json").read_text())["cohort"]["digest"],
        "weights": ", ".join(f"`{digest:.12}…`" for digest in record.weights or ()),
        "seed": SEED,
        "version": neurocontrast.__version__,
        **figures,
    }
    write_text(folder / "README.md", text.format(**facts))


def make_weights(prepared: Path, work: Path) -> Path:
    """Train, join and judge the encoders; return the folder of the weights."""
    work.mkdir(parents=True, exist_ok=True)
    joined = join_encoders(train_encoders(prepared, work, LEARNED_FROM, SEED), work)
    with atomic_folder(work / "package") as folder:
        shutil.copytree(joined, folder, dirs_exist_ok=True)
        publish_provenance(joined, folder)
        learned = embed(folder, prepared, work, LEARNED_FROM)
        for target in TARGETS:
            fit_probe(learned, target, work, folder)
        state_answer(folder)
        new = embed(folder, prepared, work, NEW)
        figures = measure(folder, new, work)
        figures |= compare(work, predict_by_discriminants(prepared, work), new)
        for target in TARGETS:
            shrink_probe(folder / target)
        write_card(folder, prepared, figures)
        people = pd.read_csv(prepared / "participants.tsv", sep="\t", dtype=str)
        check_no_identifiers(folder, people)
    print(figures, flush=True)
    return work / "package"


def predict_by_discriminants(prepared: Path, work: Path) -> Path:
    """Predict age and sex at the new scanner by brain-maps-lda; return the folder of the tables."""
    folder = work / "discriminants"
    folder.mkdir(exist_ok=True)
    shipped = weights.load("brain-maps-lda").path
    measure(shipped, embed(shipped, prepared, folder, NEW), folder)
    return folder


def main() -> None:
    """Make everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--prepared", type=Path, required=True, help="folder that `prepare --imitations 3` wrote"
    )
    parser.add_argument("--work", type=Path, required=True, help="folder for what is on the way")
    parser.add_argument("--out", type=Path, default=PACKAGE)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    made = make_weights(arguments.prepared, arguments.work)
    install_weights(made, arguments.out, most_bytes=MOST_BYTES)


if __name__ == "__main__":
    main()

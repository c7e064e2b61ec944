"""Train the encoders of `brain-maps`, and join them in half precision; `make_weights.py` does the rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from tissue_systems import linear, network

import neurocontrast
from neurocontrast.data.settings import DataSettings
from neurocontrast.encoders.members import members_of, read_record, write_members
from neurocontrast.encoders.weights import folder_of_member
from neurocontrast.files import digest_of_file
from neurocontrast.runs.answer import features_of, phantom_of, write_answer
from neurocontrast.runs.networks import load_networks, sources_of

LINEAR = ("lda, grey + white + fluid, 14 mm",)
"""Linear encoders of the run. `tissue.py` has tried six runs, and none has been chosen to ship yet."""
N_NETWORKS = 5
NETWORKS = "networks"
"""Name of the run of networks."""
Shrink = Callable[[Path, Path], dict[str, Any]]


def train_encoders(prepared: Path, work: Path, sites: Sequence[str], seed: int) -> dict[str, Path]:
    """Fit the linear encoders, and train the networks, unless that is done; return the runs by name.

    Principal components learn from real scans alone, discriminants and networks from imitated ones
    too, and networks from people whose age is known.
    """
    runs = {}
    for name in LINEAR:
        table = "imitations.tsv"
        if name.startswith("pca"):
            table = "participants.tsv"
        short = name.replace(",", "").replace(" + ", "-").replace(" ", "-")
        runs[short] = _train(
            linear(name), prepared / table, work / short, {"site": list(sites)}, seed
        )
    config = network("conditional, tissue_shift")
    config["training"]["members"] = N_NETWORKS
    table = _people_of_known_age(prepared, work / "of_known_age.tsv")
    runs[NETWORKS] = _train(config, table, work / NETWORKS, {"site": list(sites)}, seed)
    return runs


def _people_of_known_age(prepared: Path, out: Path) -> Path:
    """Write the imitated and real scans of people whose age is known, with absolute paths."""
    table = pd.read_csv(prepared / "imitations.tsv", sep="\t", dtype=str, keep_default_na=False)
    table = table[table["age"] != "n/a"]
    for column in ("path", "gm", "wm", "csf"):
        table[column] = [str((prepared / path).resolve()) for path in table[column]]
    table.to_csv(out, sep="\t", index=False)
    return out


def _train(
    config: dict[str, Any], table: Path, run: Path, where: dict[str, Any], seed: int
) -> Path:
    data = {
        **config["data"],
        "participants": str(table),
        "where": where,
        "cache_dir": str(run.parent / "cache"),
    }
    trained = neurocontrast.pretrain(
        {**config, "seed": seed, "data": data}, out=run, resume=run.is_dir()
    )
    return Path(trained.location)


def join_encoders(runs: dict[str, Path], folder: Path, shrink: Shrink) -> Path:
    """Write each encoder in half precision with its known answer, and join all; return the run.

    The answer is the features of the phantom in half precision, not those that training stated.
    """
    small = {}
    for name, run in runs.items():
        small[name] = folder.parent / f"{folder.name}-{name}"
        for number, member in enumerate(members_of(run)):
            target = small[name]
            if len(members_of(run)) > 1:
                target = folder_of_member(small[name], number)
            target.mkdir(parents=True, exist_ok=True)
            shrink(member, target)
            _answer_phantom(target)
        if len(members_of(run)) > 1:
            _record_members(run, small[name])
    return neurocontrast.join(list(small.values()), names=list(small), out=folder, overwrite=True)


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
    provenance = json.loads((run / "provenance.json").read_text(encoding="utf-8"))
    (small / "provenance.json").write_text(json.dumps(provenance), encoding="utf-8")

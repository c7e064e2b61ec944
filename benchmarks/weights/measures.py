"""Make the weights of regional measures, and their card: `weights/measures`.

    python -m benchmarks.weights.measures --data ../shared/data/regions --work WORK

Five encoders of the recipe measures_members learn from the healthy people of fcon1000, abide1,
openneuro6 without ds000222, and aomic-piop2; from nki nothing is learned, since its terms allow no
weights for others. Probes of age (ridge) and of sex (logistic regression) are fitted to the same
people; penalty and weight of the components of each encoder are chosen by the people of the sites
that it was trained without.

The card's figures are of people at sites left out: five groups of whole sites, each judged by
encoders and probes that learned from the others, and ds000222, from which nothing is ever learned.
Rivals learn from the same people: ridge and logistic regression of the same measures, and the
median age. WORK keeps what is finished, and the same command goes on there.
"""

from __future__ import annotations

import argparse
import shutil
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import safetensors.torch
import torch

import neurocontrast
from benchmarks.regions.data import choosing_sites, read_people
from benchmarks.weights.linear_rivals import LinearRivals
from benchmarks.weights.measures_card import write_card
from benchmarks.weights.publishing import (
    check_no_identifiers,
    halve,
    install_weights,
    publish_provenance,
)
from neurocontrast.data.settings import MeasureDataSettings
from neurocontrast.embedding import read_embeddings
from neurocontrast.encoders import load_encoder, read_contract
from neurocontrast.encoders.members import members_of, read_record, write_members
from neurocontrast.encoders.weights import folder_of_member
from neurocontrast.evaluation import EvaluationSettings, load_probe
from neurocontrast.evaluation.fit.distribution import training_reference
from neurocontrast.evaluation.fit.final_probe import fit_on_all
from neurocontrast.evaluation.fit.stored_probe import save_probe
from neurocontrast.evaluation.plan.planning import plan_evaluation
from neurocontrast.exceptions import NeurocontrastWarning
from neurocontrast.files import atomic_folder, write_json, write_table
from neurocontrast.runs.answer import features_of, write_answer
from neurocontrast.runs.networks import load_networks, sources_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "weights" / "measures" / "neurocontrast_weights_measures"
RECIPE = ROOT / "configs" / "brain" / "measures_members.yaml"
SOURCES = ("fcon1000", "abide1", "openneuro6", "aomic-piop2")
"""Sources whose terms allow weights for others under CC BY-NC-SA 4.0."""
NEW = "ds000222"
"""Site from which nothing is learned."""
LICENCE = "CC BY-NC-SA 4.0"
MAX_MISSING = 0.1  # one person lacks 13 of 179 measures, all others at most 7
N_GROUPS = 5
TARGETS = ("age", "sex")
SEED = 0
MOST_BYTES = 7e6


@dataclass(frozen=True, eq=False)
class People:
    """Everybody of the sources, and the measures of each, row by row."""

    table: pd.DataFrame
    measures: pd.DataFrame
    file: Path
    """Table of the measures."""

    def rows(self, kept: pd.Series) -> People:
        """Return some of the people."""
        return People(self.table[kept], self.measures[kept], self.file)


def read_sources(data: Path) -> People:
    """Read the healthy people whose data may be learned from, and the new site."""
    table, measures = read_people(data)
    people = People(table, measures, data / "measures.tsv")
    return people.rows(table["source"].isin(SOURCES) & (table["diagnosis"] == "control"))


def check_learned_from(table: pd.DataFrame) -> None:
    """Refuse to learn from a source whose terms forbid that, from patients, or from the new site."""
    wrong = ~table["source"].isin(SOURCES) | (table["site"] == NEW)
    wrong |= table["diagnosis"] != "control"
    if wrong.any():
        sites = sorted(set(table.loc[wrong, "site"]))
        raise SystemExit(f"{int(wrong.sum())} people of {sites} may not be learned from.")


def deal_sites(sites: pd.Series) -> list[list[str]]:
    """Deal whole sites into five groups alike in number of people, the largest first."""
    groups: list[list[str]] = [[] for _ in range(N_GROUPS)]
    sizes = [0] * N_GROUPS
    counts = sites.value_counts()
    for site in sorted(counts.index, key=lambda name: (-counts[name], name)):
        smallest = int(np.argmin(sizes))
        groups[smallest].append(str(site))
        sizes[smallest] += int(counts[site])
    return groups


def make_run(people: People, work: Path) -> Path:
    """Train the five members, unless that is done."""
    check_learned_from(people.table)
    work.mkdir(parents=True, exist_ok=True)
    table = work / "people.tsv"
    if not table.is_file():
        people.table.drop(columns="male").to_csv(table, sep="\t", index=False)
    overrides = [
        f"seed={SEED}",
        f"data.participants={table}",
        f"data.measures={people.file}",
        f"data.max_missing={MAX_MISSING}",
        "data.val_fraction=0",
    ]
    config = neurocontrast.load_config(RECIPE, overrides)
    return neurocontrast.pretrain(config, out=work / "run", resume=True).location


def publish(run: Path, folder: Path) -> None:
    """Write the encoders of a run in half precision, with what is public of their provenance."""
    publish_provenance(run, folder)
    digests = []
    for number, member in enumerate(members_of(run)):
        target = folder_of_member(folder, number)
        target.mkdir(parents=True)
        tensors = safetensors.torch.load_file(member / "encoder.safetensors")
        contract = read_contract(member).content()
        contract.pop("head", None)
        contract["provenance"] = publish_provenance(member, target, contents=False)
        contract["weights"] = halve(tensors, target / "encoder.safetensors")
        contract["licence"] = LICENCE
        write_json(target / "encoder.json", contract)
        digests.append(contract["weights"]["sha256"])
    write_members(folder, read_record(run).model_copy(update={"weights": tuple(digests)}))


def embed(folder: Path, people: People, out: Path) -> Path:
    """Embed people by published encoders."""
    table = out.with_suffix(".tsv")
    people.table.drop(columns="male").to_csv(table, sep="\t", index=False)
    config = {"data": {"kind": "measures", "measures": str(people.file)}}
    return neurocontrast.embed(
        folder, participants=table, out=out, config=config, overwrite=True
    ).location


def fit_probe(folder: Path, embeddings: Path, target: str) -> None:
    """Fit a probe to everybody learned from, with choices by people whom each encoder has not seen."""
    read = read_embeddings(embeddings)
    settings = EvaluationSettings(
        target=target, voxels="off", confounds=False, new_site=False, allow_overlap=True
    )
    plan = plan_evaluation(read.table, read.features, settings=settings, info=read.info)
    rows = plan.fitted_rows
    pairs = []
    for left_out in read_record(folder).left_out:
        unseen = np.isin(plan.sites[rows], left_out)
        pairs.append([(rows[~unseen], rows[unseen])])
    inside = training_reference(plan).distribution
    inside = replace(
        inside, centres=inside.centres.astype(np.float32), axes=inside.axes.astype(np.float32)
    )
    encoder = read.info.encoder_digest
    _, probe = fit_on_all(plan, encoder=encoder, distribution=inside, pairs=pairs)
    save_probe(folder / target, probe)
    print(f"{folder}: {target}, penalty {probe.strength:g}, weight {probe.weight}", flush=True)


def make_weights(people: People, work: Path) -> Path:
    """Train encoders and fit probes, unless that is done; return the folder of the weights."""
    folder = work / "weights"
    if folder.is_dir():
        return folder
    run = make_run(people, work)
    with atomic_folder(folder) as new:
        publish(run, new)
        embeddings = embed(new, people, work / "learned.parquet")
        for target in TARGETS:
            fit_probe(new, embeddings, target)
    return folder


def predict(folder: Path, people: People, work: Path) -> pd.DataFrame:
    """Return predictions of people who were not learned from."""
    embeddings = embed(folder, people, work / "new.parquet")
    predictions = people.table.set_index("participant_id")[["site", "source", "age", "sex"]]
    for target in TARGETS:
        out = work / f"{target}.tsv"
        neurocontrast.predict(folder / target, embeddings, out=out, overwrite=True)
        table = pd.read_csv(out, sep="\t").set_index("participant_id").loc[predictions.index]
        assert not table["trained_on"].any()
        predictions[f"{target}_predicted"] = table["y_score"]
        predictions["outside"] = table["outside"]
    return predictions


def predict_by_rivals(learned: People, new: People) -> pd.DataFrame:
    """Return predictions of rivals that learn from the same people's measures."""
    rivals = LinearRivals.fit(learned.table, learned.measures)
    x = rivals.standardise(new.measures)
    log_odds = rivals.male.apply(x)
    return pd.DataFrame(
        {
            "age_ridge": rivals.age.apply(x),
            "sex_logistic": 1 / (1 + np.exp(-log_odds)),
            "age_median": rivals.median_age,
        },
        index=pd.Index(new.table["participant_id"]),
    )


def judge(everybody: People, new: pd.Series, work: Path) -> pd.DataFrame:
    """Predict people of sites left out, by weights and rivals of all others but those of the new site."""
    file = work / "predictions.tsv"
    if not file.is_file():
        learned = everybody.rows(~new & (everybody.table["site"] != NEW))
        folder = make_weights(learned, work)
        predictions = predict(folder, everybody.rows(new), work)
        rivals = predict_by_rivals(learned, everybody.rows(new))
        write_table(file, predictions.join(rivals).reset_index())
    return pd.read_csv(file, sep="\t")


def state_answer(folder: Path, people: People) -> None:
    """Put a person of the new site beside the weights, with features and predictions."""
    person = people.measures.iloc[[0]].round(4).copy()
    names = ["answer/measures.tsv"]
    (folder / "answer").mkdir()
    person.insert(0, "participant_id", "sub-answer")
    write_table(folder / names[0], person)
    networks = load_networks(folder)
    sources = sources_of(networks, MeasureDataSettings(), what="the answer is of measures")
    features = []
    for network, source in zip(networks, sources, strict=True):
        cohort = source.unlisted(folder / names[0])
        features.append(features_of(network.encoder, source, cohort))
    of_all = np.concatenate(features)
    predictions = {}
    for target in TARGETS:
        predictions[target] = float(load_probe(folder / target).predict(of_all[None])[0])
    write_answer(folder, names, of_all, predictions, {})


def check_halved(run: Path, folder: Path) -> None:
    """Check that half precision moves no feature by more than a thousandth of the largest."""
    for whole, half in zip(members_of(run), members_of(folder), strict=True):
        encoder, _ = load_encoder(whole)
        halved, _ = load_encoder(half)
        draws = torch.from_numpy(
            np.random.default_rng(SEED).normal(size=(500, encoder.n_channels, 1))
        )
        with torch.inference_mode():
            expected = encoder(draws.float())
            features = halved(draws.float())
        apart = float((features - expected).abs().max() / expected.abs().max())
        print(f"{half}: features differ by {apart:.1g} of the largest", flush=True)
        assert apart < 1e-3


def main() -> None:
    """Make everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of regional measures")
    parser.add_argument("--work", type=Path, required=True, help="folder for what is on the way")
    parser.add_argument("--out", type=Path, default=PACKAGE)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", NeurocontrastWarning)  # who was learned from is embedded
    healthy = read_people(arguments.data)[0].query("diagnosis == 'control'")
    chose = choosing_sites(healthy["site"])
    everybody = read_sources(arguments.data)
    sites = everybody.table["site"]
    learned = everybody.rows(sites != NEW)
    predictions = judge(everybody, sites == NEW, arguments.work)
    weights = make_weights(learned, arguments.work)
    judged = [predictions]
    for number, group in enumerate(deal_sites(learned.table["site"])):
        of_group = judge(everybody, sites.isin(group), arguments.work / f"group-{number}")
        judged.append(of_group.assign(group=number))
    with atomic_folder(arguments.work / "package") as folder:
        shutil.copytree(weights, folder, dirs_exist_ok=True)
        state_answer(folder, everybody.rows(sites == NEW))
        LinearRivals.fit(learned.table, learned.measures).write(folder)
        write_card(folder, learned.table, pd.concat(judged), new=NEW, chose=chose)
        check_no_identifiers(folder, everybody.table)
    install_weights(arguments.work / "package", arguments.out, most_bytes=MOST_BYTES)
    check_halved(arguments.work / "run", arguments.out)


if __name__ == "__main__":
    main()

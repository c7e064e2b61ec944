"""Regional measures of forty sites: contrastive learning with metadata, judged at sites never seen.

    python benchmarks/regions.py --data ../shared/data/regions --out OUT               # all, 40 minutes of one core
    python benchmarks/regions.py --data ../shared/data/regions --out OUT --stages report   # what is there so far

Healthy people of 39 sites. Eight sites choose hyper-parameters, one of each block of sites alike in size, drawn by a
fixed seed before anything was trained: each system's first (temperature, or the supervised network's rate), then one
more. The table is of the other sites of ten people or more, left out in five groups that are dealt anew for each seed;
the choosing sites are always learned from there. A tenth of the people of every site learned from is held back, and
tells how well site and age are read at known sites. Losses and kernels are the package's; the network of two layers,
its loop and its views are this script's, so that a training takes five seconds.

Probes: ridge regression for age and for sex (−1 and 1), linear discriminants for the site. After k labelled people of a
new site their summed error over k + 2 is taken out (2, the variance within a site over that between sites, was fixed
beforehand). Every finished cell is a line of OUT/STAGE.jsonl and is not computed again. OUT holds predictions for
people, and is not to be committed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from regions_data import Fold, Journal, choosing_sites, deal_sites, make_fold, read_people, standardise
from regions_models import (
    FIRST,
    LOSSES,
    SECOND,
    Person,
    components,
    encode,
    gaussian_process,
    probe,
    site_accuracy,
    train,
    tune,
    untrained,
)  # fmt: skip

from neurocontrast.evaluation import ComBat

Floats = npt.NDArray[np.floating[Any]]
Rows = npt.NDArray[np.intp]
Best = Callable[[str], dict[str, float]]
STAGES = ("choose", "table", "autism", "weights", "curves")
NETWORKS = (*LOSSES, "supervised")
PLAIN = ("untrained", "PCA", "measures", "Gaussian process", "ComBat")
N_COMPONENTS = (20, 60, 120)
WEIGHTS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
CURVE = ("conditional A+U", "y-Aware", "NT-Xent", "supervised", "untrained", "measures")
N_SITES, N_PEOPLE = (3, 8, 16), (100, 300, 1000)
LABELLED, N_DRAWS = (20, 50, 100, 200, 350, 450), 10


class Study:
    """Healthy people, and what a fold makes of them."""

    def __init__(self, people: pd.DataFrame, measures: pd.DataFrame) -> None:
        self.people, self.measures = people.reset_index(drop=True), measures.reset_index(drop=True)
        self.sites = self.people["site"]
        self.age, self.male = self.people["age"].to_numpy(float), self.people["male"].to_numpy()

    def known(self, rows: Rows) -> Person:
        """Return age and sex."""
        return Person(self.age[rows], self.male[rows])

    def read_off(self, features: Floats, fold: Fold) -> dict[str, Any]:
        """Return what probes on features say of new people, and of others at known sites."""
        found = {
            "age": probe(features, fold.learned, self.age),
            "sex": probe(features, fold.learned, 2.0 * self.male - 1),
        }
        site = site_accuracy(features, fold.learned, fold.home, self.sites.to_numpy(str))
        return self.cut(found, fold) | {"site": site}

    def cut(self, found: dict[str, Floats], fold: Fold) -> dict[str, Any]:
        """Return rounded predictions for new people and for those held back."""
        places = {"new": fold.new, "home": fold.home}
        return {
            place: {key: np.round(v[rows], 3).tolist() for key, v in found.items()} for place, rows in places.items()
        }


def run_network(
    study: Study, x: Floats, fold: Fold, name: str, settings: dict[str, float], seed: int
) -> dict[str, Any]:
    """Train, and read features off alone and joined to the measures; a supervised network predicts by itself, too."""
    known = study.known(fold.learned)
    model = untrained(x.shape[1], seed) if name == "untrained" else train(name, x[fold.learned], known, settings, seed)
    features = encode(model.encoder, x)
    found = {"alone": study.read_off(features, fold), "joined": study.read_off(np.hstack([features, x]), fold)}
    if name == "supervised":
        own = encode(model, x)
        age = own[:, 0] * known.age.std(ddof=1) + known.age.mean()
        found["frozen"], site = found["alone"], found["alone"]["site"]
        found["alone"] = study.cut({"age": age, "sex": own[:, 1]}, fold) | {"site": site}
    return found


def run_plain(study: Study, x: Floats, fold: Fold, name: str, settings: dict[str, float], seed: int) -> dict[str, Any]:
    """Read measures, components, or measures after ComBat."""
    if name == "PCA":
        parts = components(x, fold.learned, int(settings["components"]))
        return {"alone": study.read_off(parts, fold), "joined": study.read_off(np.hstack([parts, x]), fold)}
    if name == "Gaussian process":
        wanted = {"age": study.age, "sex": 2.0 * study.male - 1}
        return {"alone": study.cut({k: gaussian_process(x, fold.learned, v, seed) for k, v in wanted.items()}, fold)}
    if name == "ComBat":
        # The age that ComBat preserves is, of those held back, the one that ridge predicts: their own is not known.
        age = np.where(np.isin(np.arange(len(x)), fold.learned), study.age, probe(x, fold.learned, study.age))
        table = pd.DataFrame(x.astype(float), columns=list(study.measures)).assign(site=study.sites, age=age)
        combat = ComBat("site", preserve=["age"], handle_unknown="ignore").fit(table.iloc[fold.learned])
        x = np.asarray(combat.transform(table))[:, : x.shape[1]]
    return {"alone": study.read_off(x, fold)}


def run(study: Study, x: Floats, fold: Fold, name: str, settings: dict[str, float], seed: int) -> dict[str, Any]:
    """Return what a system says, and the seconds of the processor that it took."""
    start = time.process_time()
    kind = run_network if name in (*NETWORKS, "untrained") else run_plain
    return {"systems": kind(study, x, fold, name, settings, seed), "seconds": round(time.process_time() - start, 2)}


def choose(study: Study, journal: Journal) -> None:
    """Try each system's first hyper-parameter, then its second, on the choosing sites."""
    fold = make_fold(study.sites, choosing_sites(study.sites), 0)
    x = standardise(study.measures, fold.learned)
    for name in (*NETWORKS, "PCA"):
        for trial in trials(name, journal):
            key = {"stage": "choose", "system": name, **trial}
            if key not in journal:
                found = run(study, x, fold, name, trial, 0)
                off = np.array(found["systems"]["alone"]["new"]["age"]) - study.age[fold.new]
                journal.add(key, {"mae": float(np.abs(off).mean()), "seconds": found["seconds"]})
                print(key, journal[key]["mae"], flush=True)


def trials(name: str, journal: Journal) -> Iterator[dict[str, float]]:
    """Yield the settings to try; the second hyper-parameter is tried at the best value of the first."""
    if name == "PCA":
        yield from ({"components": n} for n in N_COMPONENTS)
        return
    first, values = FIRST[name]
    yield from ({first: value} for value in values)
    best = best_settings(name, journal)
    second, values = SECOND[name]
    kept = {first: best[first]}
    yield from ({**kept, second: value} for value in values if value != {"sigma": 5.0, "corruption": 0.2}[second])


def best_settings(name: str, journal: Journal) -> dict[str, float]:
    """Return the settings of the smallest error at the choosing sites."""
    cells = [cell for cell in journal.of_stage("choose") if cell["key"]["system"] == name]
    if not cells:
        return {}
    best = min(cells, key=lambda cell: cell["mae"])["key"]
    return {key: value for key, value in best.items() if key not in ("stage", "system")}


def make_table(study: Study, journal: Journal, best: Best, seeds: list[int]) -> None:
    for seed in seeds:
        for group, left_out in enumerate(deal_sites(study.sites, seed)):
            fold = make_fold(study.sites, left_out, seed)
            x = standardise(study.measures, fold.learned)
            for name in (*PLAIN, *NETWORKS):
                key = {"stage": "table", "system": name, "group": group, "seed": seed}
                if key not in journal:
                    journal.add(key, run(study, x, fold, name, best(name), seed))
                    print(key, journal[key]["seconds"], flush=True)


def vary_weight(study: Study, journal: Journal, best: Best, seeds: list[int]) -> None:
    """Vary λ, the weight of conditional uniformity."""
    name = "conditional A+U"
    for seed in seeds[:1]:
        for group, left_out in enumerate(deal_sites(study.sites, seed)):
            fold = make_fold(study.sites, left_out, seed)
            x = standardise(study.measures, fold.learned)
            for weight in WEIGHTS:
                key = {"stage": "weights", "weight": weight, "group": group, "seed": seed}
                if key not in journal:
                    journal.add(key, run(study, x, fold, name, {**best(name), "weight": weight}, seed))
                    print(key, journal[key]["seconds"], flush=True)


def draw_curves(study: Study, journal: Journal, best: Best, seeds: list[int]) -> None:
    """Learn from all people of a few sites, or from a few people of all sites."""
    for seed in seeds[:1]:
        for group, left_out in enumerate(deal_sites(study.sites, seed)):
            fold = make_fold(study.sites, left_out, seed)
            random = np.random.default_rng((seed, group, 2))
            order = random.permutation(sorted(set(study.sites[fold.learned])))
            shuffled = random.permutation(fold.learned)
            parts = [("sites", n, fold.learned[study.sites[fold.learned].isin(order[:n])]) for n in N_SITES]
            parts += [("people", n, np.sort(shuffled[:n])) for n in N_PEOPLE]
            for what, n, learned in parts:
                small = Fold(learned, fold.home[study.sites[fold.home].isin(study.sites[learned])], fold.new)
                x = standardise(study.measures, learned)
                for name in CURVE:
                    key = {"stage": "curves", "of": what, "n": n, "system": name, "group": group, "seed": seed}
                    if key not in journal:
                        found = run(study, x, small, name, best(name), seed)
                        journal.add(key, {**found, "people": len(learned)})
                        print(key, journal[key]["seconds"], flush=True)


def label_draws(patients: pd.DataFrame, seed: int) -> Iterator[tuple[str, int, Rows, Rows]]:
    """Yield design, number, rows of labelled people and of those judged: a fifth of all, or a quarter of the sites."""
    random = np.random.default_rng((3, seed))
    rows, sick = np.arange(len(patients)), (patients["diagnosis"] == "autism").to_numpy()
    fifth = np.concatenate([random.permutation(rows[sick == each])[: (sick == each).sum() // 5] for each in (0, 1)])
    out = random.permutation(sorted(set(patients["site"])))[:3]
    for design, judged in (("stratified", fifth), ("sites left out", rows[patients["site"].isin(out)])):
        rest = random.permutation(np.setdiff1d(rows, judged))
        of_kind = [rest[sick[rest] == each] for each in (0, 1)]
        for n in (n for n in LABELLED if n <= len(rest)):
            n_sick = round(n * len(of_kind[1]) / len(rest))
            yield design, n, np.concatenate([of_kind[1][:n_sick], of_kind[0][: n - n_sick]]), np.sort(judged)


def judge_autism(everyone: Study, journal: Journal, best: Best, seeds: list[int]) -> None:
    """Pretrain on the healthy people of all other sources, then learn autism from few labelled people of ABIDE."""
    abide = everyone.people["source"] == "abide1"
    learned = np.flatnonzero(~abide & (everyone.people["diagnosis"] == "control"))
    patients = np.flatnonzero(abide & everyone.people["diagnosis"].isin(["autism", "control"]))
    table, x = everyone.people.iloc[patients], standardise(everyone.measures, learned)
    own, sick = x[patients], (table["diagnosis"] == "autism").to_numpy(float)
    missing = [draw for draw in range(N_DRAWS) if {"stage": "autism", "draw": draw} not in journal]
    models: dict[str, list[Any]] = {"untrained": [untrained(x.shape[1], seed) for seed in seeds[:2]]}
    for name in ("conditional A+U", "y-Aware", "NT-Xent") if missing else ():
        models[name] = [train(name, x[learned], everyone.known(learned), best(name), seed) for seed in seeds[:2]]
    for weight in [weight for weight in WEIGHTS if weight != 1] if missing else ():
        settings = {**best("conditional A+U"), "weight": weight}
        trained = train("conditional A+U", x[learned], everyone.known(learned), settings, seeds[0])
        models[f"λ = {weight:g}"] = [trained]
    for draw in missing:
        sets: dict[str, Floats] = {"measures": own, "age and sex": table[["age", "male"]].to_numpy(float)}
        for name, trained in models.items():
            sets[name] = encode(trained[draw % len(trained)].encoder, own)
            sets[f"{name}, joined"] = np.hstack([sets[name], own])
        cells = []
        for design, n, fitted, judged in label_draws(table, draw):
            said = {name: probe(features, fitted, 2 * sick - 1)[judged] for name, features in sets.items()}
            for name in ("conditional A+U", "untrained"):
                start = models[name][draw % len(models[name])]
                said[f"{name}, tuned"] = encode(tune(start, own[fitted], sick[fitted], draw), own[judged])[:, 0]
            scores = {name: np.round(values, 4).tolist() for name, values in said.items()}
            cells.append({"design": design, "n": n, "judged": judged.tolist(), "scores": scores})
        journal.add({"stage": "autism", "draw": draw}, {"cells": cells})
        print("autism", draw, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="where cells, tables and figures are kept")
    parser.add_argument("--stages", nargs="+", default=[*STAGES, "report"], choices=[*STAGES, "report"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    people, measures = read_people(options.data)
    healthy = (people["diagnosis"] == "control").to_numpy()
    study, everyone = Study(people[healthy], measures[healthy]), Study(people, measures)
    chosen = Journal(options.out / "choose.jsonl")

    def best(name: str) -> dict[str, float]:
        return best_settings(name, chosen)

    for stage in options.stages:
        if stage == "choose":
            choose(study, chosen)
        elif stage == "report":
            from regions_tables import report

            report(study, everyone, options.out, best)
        else:
            of = everyone if stage == "autism" else study
            work = {"table": make_table, "autism": judge_autism, "weights": vary_weight, "curves": draw_curves}[stage]
            work(of, Journal(options.out / f"{stage}.jsonl"), best, options.seeds)


if __name__ == "__main__":
    main()

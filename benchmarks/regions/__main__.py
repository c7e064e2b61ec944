"""Regional measures of forty sites: contrastive learning with metadata, judged at sites never seen.

    python -m benchmarks.regions --data ../shared/data/regions --out OUT
    python -m benchmarks.regions --data ../shared/data/regions --out OUT --stages report

The second line tells of what is there so far. Eight sites of healthy people, and six of the twelve
hospitals with patients, choose; they are drawn by a fixed seed, one of each block alike in size,
and stand in no table. Three figures choose with equal standing, each as a share of that of the
measures alone: the error of age at new sites, one less the AUC of sex there, and one less the AUC
of patients among people of one site, the mean over 20, 60 and most labels. They are those of the
network with components beside it, the mean of two seeds.

The table of age and sex is of the other sites of ten people or more, left out in five groups that
are dealt anew for each seed; the choosing sites are always learned from there. A tenth of the
people of every site learned from is held back, and tells how well site and age are read at known
sites. Patients are judged at the other six hospitals, by encoders that learned from the healthy
people of all other sources.

Encoders are those of `neurocontrast.pretrain` with the recipe `measures` and the settings of each
row. Their features are judged alone, and with the components that the run keeps beside them;
predictions of several encoders are averaged. Probes are ridge regression, of sex and of patients on
−1 and 1. Weight of blocks and penalty are chosen at sites left out of the fit and on the people
held back, of an encoder only by people whom it has not learned from: of one encoder those held
back, of one of several its left-out sites, too. For patients they are chosen on five folds of the
labelled people. After k labelled people of a new site their summed error over k + 2 is
taken out (2, the variance within a site over that between sites, was fixed beforehand).

Every finished cell is a line of OUT/STAGE.jsonl and is not computed again. OUT holds predictions
for people, and is not to be committed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from joblib import Parallel, delayed

from benchmarks.regions.choice import LABELLED, MAIN, System, best_settings, systems_of
from benchmarks.regions.data import (
    Fold,
    Journal,
    choosing_sites,
    deal_sites,
    hospitals,
    logarithms,
    make_fold,
    read_people,
    standardise,
)
from benchmarks.regions.models import (
    DEFAULTS,
    TRIALS,
    TrainedEncoder,
    encoders_of_run,
    pretrain_run,
)
from benchmarks.regions.probes import (
    GaussianProcess,
    Linear,
    Perceptron,
    Predictor,
    SupportVectors,
    class_folds,
    site_accuracy,
    site_folds,
)
from benchmarks.regions.scores import pair_counts

Floats = npt.NDArray[np.floating[Any]]
Rows = npt.NDArray[np.intp]
Settings = Mapping[str, Any]
STAGES = ("choose", "table", "patients", "weights", "curves")
WEIGHTS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
CURVE = (MAIN, "y-Aware", "NT-Xent", "untrained", "measures", "MLP")
N_SITES = (3, 8, 16)
N_PEOPLE = (100, 300, 1000)
MOST = 0.8
"""Share of a clinic's people who are labelled at most."""
N_DRAWS = 30
"""Draws of labelled people, of each seed and size."""


class Study:
    """People with their measures, of whom some are learned from."""

    def __init__(self, people: pd.DataFrame, measures: pd.DataFrame, file: Path) -> None:
        self.people = people.reset_index(drop=True)
        self.raw = measures.reset_index(drop=True)
        self.measures = logarithms(self.raw)
        self.file = file
        self.sites = self.people["site"]
        self.age = self.people["age"].to_numpy(float)
        self.male = self.people["male"].to_numpy()

    def encoders_of(self, system: System, learned: Rows, seed: int) -> list[TrainedEncoder]:
        """Train a system's encoders, and return them with the blocks of everybody."""
        with tempfile.TemporaryDirectory() as folder:
            run = pretrain_run(
                system.name,
                self.people.iloc[learned],
                self.file,
                system.settings,
                seed,
                Path(folder, "of"),
                members=system.members,
            )
            n_features = {**DEFAULTS, **system.settings}["widths"][-1]
            return encoders_of_run(run, self.sites, learned, self.raw, n_features)

    def predictors(self, system: System, learned: Rows, seed: int) -> dict[str, Predictor]:
        """Return the predictors of a system: of a loss the network alone and with components beside."""
        x = standardise(self.measures, learned)
        match system.name:
            case "measures":
                return {"alone": Linear([[x]])}
            case "MLP":
                alpha = system.settings["alpha"]
                return {"alone": Perceptron(x, seed, alpha, system.members)}
            case "SVR":
                return {"alone": SupportVectors(x)}
            case "Gaussian process":
                return {"alone": GaussianProcess(x, seed)}
        encoders = self.encoders_of(system, learned, seed)
        blocks = [encoder.blocks for encoder in encoders]
        alone = [encoder.blocks[:1] for encoder in encoders]
        rows = [encoder.learned for encoder in encoders]
        return {"alone": Linear(alone, rows), "beside": Linear(blocks, rows)}

    def predict(self, predictor: Predictor, fold: Fold) -> dict[str, Floats]:
        """Return age and sex (−1 to 1) of everybody, after those of the people learned from.

        Choices are made at sites left out and on the people held back.
        """
        wanted = np.column_stack([self.age, 2.0 * self.male - 1])
        folds = site_folds(self.sites.to_numpy(str), fold.learned)
        predicted = predictor.predict(wanted, fold.learned, [*folds, (fold.learned, fold.home)])
        return {"age": predicted[:, 0], "sex": predicted[:, 1]}

    def read_off(self, predictor: Predictor, fold: Fold) -> dict[str, Any]:
        """Return rounded predictions for people of new sites and for those held back at known ones."""
        predicted = self.predict(predictor, fold)
        cell: dict[str, Any] = {}
        for group, rows in (("new", fold.new), ("home", fold.home)):
            cell[group] = {key: np.round(of[rows], 3).tolist() for key, of in predicted.items()}
        if isinstance(predictor, Linear) and len(predictor.encoders) == 1:
            features = np.hstack([block.astype(float) for block in predictor.encoders[0]])
            sites = self.sites.to_numpy(str)
            cell["site"] = site_accuracy(features, fold.learned, fold.home, sites)
        return cell


@dataclass(frozen=True, eq=False)
class Clinic:
    """Patients and controls of some hospitals, by whom encoders and rivals are judged."""

    rows: Rows
    sick: Floats
    """1 of patients, −1 of controls, in the order of `rows`."""
    sites: npt.NDArray[np.str_]

    def pairs(self, predictor: Predictor, seed: int) -> dict[str, list[list[float]]]:
        """Return pairs in order and all pairs, a site, by the number of labelled people.

        Labelled people are drawn from all hospitals, as many patients among them as in the whole;
        pairs are of a patient and a control of one hospital who are not labelled. Draws are the same
        for every system.
        """
        names = sorted(set(self.sites))
        of_clinic = predictor.of_people(self.rows)
        found: dict[str, list[list[float]]] = {}
        for n, key in (*((n, str(n)) for n in LABELLED), (round(MOST * len(self.rows)), "most")):
            counts = np.zeros((2, len(names)))
            for draw in range(N_DRAWS):
                labelled = self._labelled(n, (seed, draw, n))
                counts += self._pairs_of_draw(of_clinic, labelled, names)
            found[key] = counts.tolist()
        return found

    def _labelled(self, n: int, key: tuple[int, ...]) -> Rows:
        random = np.random.default_rng((5, *key))
        parts = []
        for label in (-1, 1):
            of_class = np.flatnonzero(self.sick == label)
            n_of_class = round(n * len(of_class) / len(self.rows))
            parts.append(random.permutation(of_class)[:n_of_class])
        return np.sort(np.concatenate(parts))

    def _pairs_of_draw(self, predictor: Predictor, labelled: Rows, names: list[str]) -> Floats:
        labels = self.sick[labelled]
        folds = class_folds(labels, labelled)
        scores = predictor.predict(self.sick[:, None], labelled, folds)[:, 0]
        judged = np.ones(len(self.rows), dtype=bool)
        judged[labelled] = False
        counts = np.zeros((2, len(names)))
        for place, name in enumerate(names):
            sick = scores[judged & (self.sites == name) & (self.sick == 1)]
            well = scores[judged & (self.sites == name) & (self.sick == -1)]
            counts[:, place] = pair_counts(sick, well), len(sick) * len(well)
        return counts


def clinic_of(everyone: Study, sites: list[str]) -> Clinic:
    """Return the patients and controls of some hospitals."""
    rows = np.flatnonzero(everyone.sites.isin(sites))
    people = everyone.people.iloc[rows]
    sick = np.where(people["diagnosis"] == "control", -1.0, 1.0)
    return Clinic(rows, sick, people["site"].to_numpy(str))


@dataclass(frozen=True, eq=False)
class Design:
    """Who learns, who chooses and who is judged, of healthy people and of patients."""

    healthy: Study
    everyone: Study

    def choosing_fold(self, seed: int) -> Fold:
        """Return rows of `everyone` while choosing: healthy people, none of hospitals to learn from."""
        people = self.everyone.people
        fold = make_fold(people["site"], choosing_sites(self.healthy.sites), seed)
        control = (people["diagnosis"] == "control").to_numpy()
        outside = control & (people["source"] != "abide1").to_numpy()
        return Fold(
            fold.learned[outside[fold.learned]],
            fold.home[outside[fold.home]],
            fold.new[control[fold.new]],
        )

    def outside_clinics(self) -> Rows:
        """Return rows of `everyone` of healthy people of all sources without patients."""
        people = self.everyone.people
        return np.flatnonzero((people["diagnosis"] == "control") & (people["source"] != "abide1"))


Cell = tuple[dict[str, Any], dict[str, Any]]


def judge_choice(design: Design, system: System, seed: int) -> dict[str, Any]:
    """Return the three figures of a trial, at the sites and hospitals that choose."""
    study = design.everyone
    fold = design.choosing_fold(seed)
    new = fold.new
    clinic = clinic_of(study, hospitals(study.people)[0])
    male = study.male[new] == 1
    figures = {}
    for kind, predictor in study.predictors(system, fold.learned, seed).items():
        predicted = study.predict(predictor, fold)
        sex = predicted["sex"][new]
        n_pairs = male.sum() * (~male).sum()
        aucs = []
        for pairs in clinic.pairs(predictor, 0).values():
            in_order, everything = np.sum(pairs, axis=1)
            aucs.append(in_order / everything)
        figures[kind] = {
            "age": float(np.abs(predicted["age"][new] - study.age[new]).mean()),
            "sex": float(pair_counts(sex[male], sex[~male]) / n_pairs),
            "patients": float(np.mean(aucs)),
        }
    return {"figures": figures}


def judge_fold(design: Design, system: System, fold: Fold, seed: int) -> dict[str, Any]:
    """Return predictions for people of the sites left out, and for those held back."""
    study = design.healthy
    cells = {}
    for kind, predictor in study.predictors(system, fold.learned, seed).items():
        cells[kind] = study.read_off(predictor, fold)
    return {"systems": cells, "people": len(fold.learned)}


def judge_patients(design: Design, system: System, seed: int) -> dict[str, Any]:
    """Return pairs of patients and controls in order, at the hospitals that judge."""
    study = design.everyone
    clinic = clinic_of(study, hospitals(study.people)[1])
    predictors = study.predictors(system, design.outside_clinics(), seed)
    pairs = {kind: clinic.pairs(predictor, seed) for kind, predictor in predictors.items()}
    return {"sites": sorted(set(clinic.sites)), "pairs": pairs}


Task = tuple[dict[str, Any], Any, tuple[Any, ...]]


def fill(journal: Journal, design: Design, tasks: Iterable[Task], n_jobs: int) -> None:
    """Compute the cells that the journal lacks, and append each when it is done."""
    missing = [task for task in tasks if task[0] not in journal]

    def compute(key: dict[str, Any], judge: Any, arguments: tuple[Any, ...]) -> Cell:
        torch.set_num_threads(1)
        start = time.process_time()
        content = judge(design, *arguments)
        return key, {**content, "seconds": round(time.process_time() - start, 2)}

    parallel = Parallel(n_jobs, return_as="generator_unordered")
    for key, content in parallel(delayed(compute)(*task) for task in missing):
        journal.add(key, content)
        print(key, content["seconds"], flush=True)


def choose(design: Design, journal: Journal, seeds: list[int], n_jobs: int) -> None:
    """Try each loss's settings on the choosing sites, group after group, at the best of those before."""
    baseline = [_choice_task("measures", {}, seed) for seed in seeds[:1]]
    fill(journal, design, baseline, n_jobs)
    for place in range(max(map(len, TRIALS.values()))):
        tasks = []
        for name, groups in TRIALS.items():
            if place >= len(groups):
                continue
            earlier = {key for group in groups[:place] for changed in group for key in changed}
            best = best_settings(name, journal, of=earlier) if place else {}
            for changed in groups[place]:
                tasks += [_choice_task(name, {**best, **changed}, seed) for seed in seeds[:2]]
        fill(journal, design, tasks, n_jobs)


def _choice_task(name: str, settings: Settings, seed: int) -> Task:
    key = {"stage": "choose", "system": name, **settings, "seed": seed}
    return key, judge_choice, (System(name, settings), seed)


def folds_of(study: Study, seeds: list[int]) -> Iterator[tuple[int, int, Fold]]:
    """Yield seed, group and fold of every group of sites that is left out."""
    for seed in seeds:
        for group, left_out in enumerate(deal_sites(study.sites, seed)):
            yield seed, group, make_fold(study.sites, left_out, seed)


def table_tasks(design: Design, chosen: Journal, seeds: list[int]) -> Iterator[Task]:
    """Yield the cells of the table of age and sex, all systems of a seed before the next seed."""
    for seed, group, fold in folds_of(design.healthy, seeds):
        for system in systems_of(chosen):
            key = {"stage": "table", "system": system.title, "group": group, "seed": seed}
            yield key, judge_fold, (system, fold, seed)


def patients_tasks(_design: Design, chosen: Journal, seeds: list[int]) -> Iterator[Task]:
    """Yield the cells of the table of patients."""
    for seed in seeds:
        for system in systems_of(chosen):
            if system.name == "Gaussian process":
                continue  # its kernel would be fitted anew to each draw of labelled people
            key = {"stage": "patients", "system": system.title, "seed": seed}
            yield key, judge_patients, (system, seed)


def weight_tasks(design: Design, chosen: Journal, seeds: list[int]) -> Iterator[Task]:
    """Yield cells that vary λ, the weight of conditional uniformity."""
    for seed, group, fold in folds_of(design.healthy, seeds[:1]):
        for weight in WEIGHTS:
            system = System(MAIN, {**best_settings(MAIN, chosen), "weight": weight})
            key = {"stage": "weights", "weight": weight, "group": group, "seed": seed}
            yield key, judge_fold, (system, fold, seed)


def curve_tasks(design: Design, chosen: Journal, seeds: list[int]) -> Iterator[Task]:
    """Yield cells that learn from all people of a few sites, or from a few people of all sites."""
    sites = design.healthy.sites
    for seed, group, fold in folds_of(design.healthy, seeds[:1]):
        random = np.random.default_rng((seed, group, 2))
        order = random.permutation(sorted(set(sites[fold.learned])))
        shuffled = random.permutation(fold.learned)
        parts = []
        for n in N_SITES:
            parts.append(("sites", n, fold.learned[sites[fold.learned].isin(order[:n])]))
        for n in N_PEOPLE:
            parts.append(("people", n, np.sort(shuffled[:n])))
        for unit, n, learned in parts:
            home = fold.home[sites[fold.home].isin(sites[learned])]
            small = Fold(learned, home, fold.new)
            for name in CURVE:
                key = {
                    "stage": "curves",
                    "of": unit,
                    "n": n,
                    "system": name,
                    "group": group,
                    "seed": seed,
                }
                system = System(name, best_settings(name, chosen))
                yield key, judge_fold, (system, small, seed)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--out", type=Path, required=True, help="where cells, tables and figures are kept"
    )
    parser.add_argument(
        "--stages", nargs="+", default=[*STAGES, "report"], choices=[*STAGES, "report"]
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--jobs", type=int, default=1, help="processes, one thread each")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    people, measures = read_people(options.data)
    healthy = (people["diagnosis"] == "control").to_numpy()
    file = (options.data / "measures.tsv").resolve()
    design = Design(Study(people[healthy], measures[healthy], file), Study(people, measures, file))
    chosen = Journal(options.out / "choose.jsonl")
    makers = {
        "table": table_tasks,
        "patients": patients_tasks,
        "weights": weight_tasks,
        "curves": curve_tasks,
    }
    for stage in options.stages:
        if stage == "choose":
            choose(design, chosen, options.seeds, options.jobs)
        elif stage == "report":
            from benchmarks.regions.tables import report

            report(design.healthy, options.out)
        else:
            journal = Journal(options.out / f"{stage}.jsonl")
            fill(journal, design, makers[stage](design, chosen, options.seeds), options.jobs)


if __name__ == "__main__":
    main()

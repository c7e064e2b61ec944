"""Regional measures of forty sites: contrastive learning with metadata, judged at sites never seen.

    python benchmarks/regions.py --data ../shared/data/regions --out OUT               # all, two
    hours of one core python benchmarks/regions.py --data ../shared/data/regions --out OUT --stages
    report   # what is there so far

Healthy people of 39 sites. Eight sites choose hyper-parameters, one of each block of sites alike in
size, drawn by a fixed seed before anything was trained: temperature, then one more, by the mean of
two seeds; with --rates the rate, too, which the supervised network chooses anyway. The table is of
the other sites of ten people or more, left out in five groups that are dealt anew for each seed;
the choosing sites are always learned from there. A tenth of the people of every site learned from
is held back, and tells how well site and age are read at known sites. Encoders are those of
`neurocontrast.pretrain` with the recipe `measures` and the settings of each row; the supervised
network, which predicts age and sex at once, and fine-tuning have a loop of their own on the same
network and views.

Probes: ridge regression for age and for sex (−1 and 1), linear discriminants for the site. After k
labelled people of a new site their summed error over k + 2 is taken out (2, the variance within a
site over that between sites, was fixed beforehand). Every finished cell is a line of
OUT/STAGE.jsonl and is not computed again. OUT holds predictions for people, and is not to be
committed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from joblib import Parallel, delayed
from regions_data import (
    Fold,
    Journal,
    choosing_sites,
    deal_sites,
    logarithms,
    make_fold,
    read_people,
    standardise,
)
from regions_models import (
    DEFAULTS,
    LOSSES,
    TRIALS,
    WITH_RATES,
    components,
    encode,
    features_of,
    gaussian_process,
    pretrain_run,
    probe,
    site_accuracy,
    supervise,
    tune,
)  # fmt: skip

from neurocontrast.data.measures import MeasuresContract
from neurocontrast.encoders import load_encoder
from neurocontrast.evaluation import ComBat

Floats = npt.NDArray[np.floating[Any]]
Rows = npt.NDArray[np.intp]
Best = Callable[[str], dict[str, float]]
STAGES = ("choose", "table", "autism", "weights", "curves")
NETWORKS = (*LOSSES, "supervised")
PLAIN = ("untrained", "PCA", "measures", "Gaussian process", "ComBat")
WEIGHTS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
CURVE = ("conditional A+U", "y-Aware", "NT-Xent", "supervised", "untrained", "measures")
N_SITES, N_PEOPLE = (3, 8, 16), (100, 300, 1000)
SIDE_BY_SIDE = ("conditional A+U", "y-Aware", "NT-Xent", "untrained")
LABELLED, N_DRAWS = (20, 50, 100, 200, 350, 450), 10


class Study:
    """Healthy people, and what a fold makes of them."""

    def __init__(self, people: pd.DataFrame, measures: pd.DataFrame, file: Path) -> None:
        self.people, self.raw, self.file = (
            people.reset_index(drop=True),
            measures.reset_index(drop=True),
            file,
        )
        self.measures = logarithms(self.raw)
        self.sites = self.people["site"]
        self.age, self.male = self.people["age"].to_numpy(float), self.people["male"].to_numpy()

    def pretrained(
        self, name: str, learned: Rows, settings: dict[str, float], seed: int, out: Path
    ) -> Path:
        """Return the run of a loss, or of no training, on some of the people."""
        return pretrain_run(name, self.people.iloc[learned], self.file, settings, seed, out)

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
            place: {key: np.round(v[rows], 3).tolist() for key, v in found.items()}
            for place, rows in places.items()
        }


def run_network(
    study: Study, fold: Fold, name: str, settings: dict[str, float], seed: int
) -> dict[str, Any]:
    """Train, and read features off alone and joined to the measures; a supervised network predicts by itself, too."""
    x, age = standardise(study.measures, fold.learned), study.age[fold.learned]
    if name == "supervised":
        model = supervise(x[fold.learned], age, study.male[fold.learned], settings, seed)
        features = encode(model.encoder, x)
    else:
        with tempfile.TemporaryDirectory() as folder:
            features = features_of(
                study.pretrained(name, fold.learned, settings, seed, Path(folder, "of")), study.raw
            )
    found = {
        "alone": study.read_off(features, fold),
        "joined": study.read_off(np.hstack([features, x]), fold),
    }
    if name == "supervised":
        own = encode(model, x)
        said = {"age": own[:, 0] * age.std(ddof=1) + age.mean(), "sex": own[:, 1]}
        found["frozen"], site = found["alone"], found["alone"]["site"]
        found["alone"] = study.cut(said, fold) | {"site": site}
    return found


def run_plain(
    study: Study, fold: Fold, name: str, settings: dict[str, float], seed: int
) -> dict[str, Any]:
    """Read measures, components, or measures after ComBat."""
    x = standardise(study.measures, fold.learned)
    if name == "PCA":
        parts = components(x, fold.learned, int(settings["components"]))
        return {
            "alone": study.read_off(parts, fold),
            "joined": study.read_off(np.hstack([parts, x]), fold),
        }
    if name == "Gaussian process":
        wanted = {"age": study.age, "sex": 2.0 * study.male - 1}
        return {
            "alone": study.cut(
                {k: gaussian_process(x, fold.learned, v, seed) for k, v in wanted.items()}, fold
            )
        }
    if name == "ComBat":
        # The age that ComBat preserves is, of those held back, the one that ridge predicts: their
        # own is not known.
        age = np.where(
            np.isin(np.arange(len(x)), fold.learned), study.age, probe(x, fold.learned, study.age)
        )
        table = pd.DataFrame(x.astype(float), columns=list(study.measures)).assign(
            site=study.sites, age=age
        )
        combat = ComBat("site", preserve=["age"], handle_unknown="ignore").fit(
            table.iloc[fold.learned]
        )
        x = np.asarray(combat.transform(table))[:, : x.shape[1]]
    return {"alone": study.read_off(x, fold)}


def run(
    study: Study, fold: Fold, name: str, settings: dict[str, float], seed: int
) -> dict[str, Any]:
    """Return what a system says, and the seconds of the processor that it took."""
    torch.set_num_threads(1)
    start = time.process_time()
    kind = run_network if name in (*NETWORKS, "untrained") else run_plain
    return {
        "systems": kind(study, fold, name, settings, seed),
        "seconds": round(time.process_time() - start, 2),
    }


Tried = dict[str, tuple[tuple[str, tuple[float, ...]], ...]]
Cell = tuple[dict[str, Any], Fold, str, dict[str, float], int]


def fill(journal: Journal, study: Study, cells: Iterable[Cell], n_jobs: int) -> None:
    """Compute the cells (key, fold, system, settings, seed) that the journal lacks, and append each when it is done."""
    missing = [cell for cell in cells if cell[0] not in journal]

    def one(key: dict[str, Any], *cell: Any) -> tuple[dict[str, Any], dict[str, Any], int]:
        return key, run(study, *cell), len(cell[0].learned)

    for key, found, n_people in Parallel(n_jobs, return_as="generator_unordered")(
        delayed(one)(*c) for c in missing
    ):
        journal.add(key, {**found, "people": n_people})
        print(key, found["seconds"], flush=True)


def choose(study: Study, journal: Journal, seeds: list[int], n_jobs: int, tried: Tried) -> None:
    """Try each system's settings on the choosing sites, one after the other, each at the best of those before."""
    for place in range(max(map(len, tried.values()))):
        cells = [
            (
                {"stage": "choose", "system": name, **trial, "seed": seed},
                chosen_fold(study, seed),
                name,
                trial,
                seed,
            )
            for name, settings in tried.items()
            if place < len(settings)
            for trial in trials(name, place, tried, study, journal)
            for seed in seeds[:2]
        ]
        fill(journal, study, cells, n_jobs)


def chosen_fold(study: Study, seed: int) -> Fold:
    return make_fold(study.sites, choosing_sites(study.sites), seed)


def trials(
    name: str, place: int, tried: Tried, study: Study, journal: Journal
) -> Iterator[dict[str, float]]:
    """Yield the settings to try: values of one setting, at the best of the settings before it."""
    before = {each for each, _ in tried[name][:place]}
    best = best_settings(name, study, journal, before) if place else {}
    key, values = tried[name][place]
    yield from ({**best, key: value} for value in values if not place or value != DEFAULTS[key])


def best_settings(
    name: str, study: Study, journal: Journal, of: set[str] | None = None
) -> dict[str, float]:
    """Return the settings, or those of the keys `of`, with the smallest mean error at the choosing sites."""
    errors: dict[str, list[float]] = {}
    for cell in journal.of_stage("choose"):
        key = {name: value for name, value in cell["key"].items() if name not in ("stage", "seed")}
        if key.pop("system") == name and (of is None or set(key) <= of):
            new = chosen_fold(study, cell["key"]["seed"]).new
            off = np.array(cell["systems"]["alone"]["new"]["age"]) - study.age[new]
            errors.setdefault(json.dumps(key), []).append(float(np.abs(off).mean()))
    return json.loads(min(errors, key=lambda key: float(np.mean(errors[key])))) if errors else {}


def folds_of(study: Study, seeds: list[int]) -> Iterator[tuple[int, int, Fold]]:
    """Yield seed, group and fold of every group of sites that is left out."""
    for seed in seeds:
        for group, left_out in enumerate(deal_sites(study.sites, seed)):
            yield seed, group, make_fold(study.sites, left_out, seed)


def table_cells(study: Study, best: Best, seeds: list[int]) -> Iterator[Cell]:
    for seed, group, fold in folds_of(study, seeds):
        for name in (*PLAIN, *NETWORKS):
            yield (
                {"stage": "table", "system": name, "group": group, "seed": seed},
                fold,
                name,
                best(name),
                seed,
            )


def weight_cells(study: Study, best: Best, seeds: list[int]) -> Iterator[Cell]:
    """Yield cells that vary λ, the weight of conditional uniformity."""
    name = "conditional A+U"
    for seed, group, fold in folds_of(study, seeds[:1]):
        for weight in WEIGHTS:
            key = {"stage": "weights", "weight": weight, "group": group, "seed": seed}
            yield key, fold, name, {**best(name), "weight": weight}, seed


def curve_cells(study: Study, best: Best, seeds: list[int]) -> Iterator[Cell]:
    """Yield cells that learn from all people of a few sites, or from a few people of all sites."""
    for seed, group, fold in folds_of(study, seeds[:1]):
        random = np.random.default_rng((seed, group, 2))
        order = random.permutation(sorted(set(study.sites[fold.learned])))
        shuffled = random.permutation(fold.learned)
        parts = [
            ("sites", n, fold.learned[study.sites[fold.learned].isin(order[:n])]) for n in N_SITES
        ]
        parts += [("people", n, np.sort(shuffled[:n])) for n in N_PEOPLE]
        for what, n, learned in parts:
            small = Fold(
                learned, fold.home[study.sites[fold.home].isin(study.sites[learned])], fold.new
            )
            for name in CURVE:
                key = {
                    "stage": "curves",
                    "of": what,
                    "n": n,
                    "system": name,
                    "group": group,
                    "seed": seed,
                }
                yield key, small, name, best(name), seed


def label_draws(patients: pd.DataFrame, seed: int) -> Iterator[tuple[str, int, Rows, Rows]]:
    """Yield design, number, rows of labelled people and of those judged: a fifth of all, or a quarter of the sites."""
    random = np.random.default_rng((3, seed))
    rows, sick = np.arange(len(patients)), (patients["diagnosis"] == "autism").to_numpy()
    fifth = np.concatenate(
        [random.permutation(rows[sick == each])[: (sick == each).sum() // 5] for each in (0, 1)]
    )
    out = random.permutation(sorted(set(patients["site"])))[:3]
    for design, judged in (
        ("stratified", fifth),
        ("sites left out", rows[patients["site"].isin(out)]),
    ):
        rest = random.permutation(np.setdiff1d(rows, judged))
        of_kind = [rest[sick[rest] == each] for each in (0, 1)]
        for n in (n for n in LABELLED if n <= len(rest)):
            n_sick = round(n * len(of_kind[1]) / len(rest))
            yield (
                design,
                n,
                np.concatenate([of_kind[1][:n_sick], of_kind[0][: n - n_sick]]),
                np.sort(judged),
            )


def judge_autism(
    everyone: Study, journal: Journal, best: Best, seeds: list[int], n_jobs: int, folder: Path
) -> None:
    """Pretrain on the healthy people of all other sources, then learn autism from few labelled people of ABIDE."""
    missing = [draw for draw in range(N_DRAWS) if {"stage": "autism", "draw": draw} not in journal]
    if not missing:
        return
    abide = everyone.people["source"] == "abide1"
    learned = np.flatnonzero(~abide & (everyone.people["diagnosis"] == "control"))
    patients = np.flatnonzero(abide & everyone.people["diagnosis"].isin(["autism", "control"]))
    name = "conditional A+U"
    wanted = [(system, system, best(system), seed) for system in SIDE_BY_SIDE for seed in seeds[:2]]
    wanted += [
        (f"λ = {w:g}", name, {**best(name), "weight": w}, seeds[0]) for w in WEIGHTS if w != 1
    ]

    def train(place: int, system: str, settings: dict[str, float], seed: int) -> Path:
        torch.set_num_threads(1)
        return everyone.pretrained(system, learned, settings, seed, folder / str(place))

    runs = Parallel(n_jobs)(delayed(train)(place, *each[1:]) for place, each in enumerate(wanted))
    models: dict[str, list[Path]] = {}
    for (shown, *_), trained in zip(wanted, runs, strict=True):
        models.setdefault(shown, []).append(trained)

    def one(draw: int) -> tuple[int, list[dict[str, Any]]]:
        torch.set_num_threads(1)
        return draw, list(judge_draw(everyone, models, patients, learned, draw))

    for draw, cells in Parallel(n_jobs, return_as="generator_unordered")(
        delayed(one)(draw) for draw in missing
    ):
        journal.add({"stage": "autism", "draw": draw}, {"cells": cells})
        print("autism", draw, flush=True)


def judge_draw(
    everyone: Study, models: dict[str, list[Path]], patients: Rows, learned: Rows, draw: int
) -> Iterator[dict[str, Any]]:
    """Yield the scores of a draw of labelled people, by design and number."""
    table, own = everyone.people.iloc[patients], standardise(everyone.measures, learned)[patients]
    raw, sick = everyone.raw.iloc[patients], np.where(table["diagnosis"] == "autism", 1.0, 0.0)
    sets: dict[str, Floats] = {
        "measures": own,
        "age and sex": table[["age", "male"]].to_numpy(float),
    }
    runs = {name: trained[draw % len(trained)] for name, trained in models.items()}
    for name, run_of in runs.items():
        sets[name] = features_of(run_of, raw)
        sets[f"{name}, joined"] = np.hstack([sets[name], own])
    contract = MeasuresContract.from_json(load_encoder(runs["untrained"])[1]["preprocessing"])
    x = contract.apply(raw, table["participant_id"].tolist(), source="measures.tsv")
    for design, n, fitted, judged in label_draws(table, draw):
        said = {
            name: probe(features, fitted, 2 * sick - 1)[judged] for name, features in sets.items()
        }
        for name in ("conditional A+U", "untrained"):
            said[f"{name}, tuned"] = encode(
                tune(runs[name], x[fitted], sick[fitted], draw), x[judged]
            )[:, 0]
        scores = {name: np.round(values, 4).tolist() for name, values in said.items()}
        yield {"design": design, "n": n, "judged": judged.tolist(), "scores": scores}


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
    parser.add_argument(
        "--rates",
        action="store_true",
        help="choose the rate of each loss, too; in an OUT of its own",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes, one thread each")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    people, measures = read_people(options.data)
    healthy = (people["diagnosis"] == "control").to_numpy()
    file = (options.data / "measures.tsv").resolve()
    study, everyone = Study(people[healthy], measures[healthy], file), Study(people, measures, file)
    chosen = Journal(options.out / "choose.jsonl")

    @cache
    def best(name: str) -> dict[str, float]:
        return best_settings(name, study, chosen)

    makers = {"table": table_cells, "weights": weight_cells, "curves": curve_cells}
    for stage in options.stages:
        journal = Journal(options.out / f"{stage}.jsonl")
        if stage == "choose":
            choose(
                study, chosen, options.seeds, options.jobs, WITH_RATES if options.rates else TRIALS
            )
        elif stage == "report":
            from regions_tables import report

            report(study, everyone, options.out, best)
        elif stage == "autism":
            with tempfile.TemporaryDirectory() as folder:
                judge_autism(everyone, journal, best, options.seeds, options.jobs, Path(folder))
        else:
            fill(journal, study, makers[stage](study, best, options.seeds), options.jobs)


if __name__ == "__main__":
    main()

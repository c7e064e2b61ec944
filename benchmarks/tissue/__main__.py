"""Measure encoders of real brains at home and at scanners never seen: the evidence on inputs, losses and networks.

    neurocontrast prepare ../shared/data/brains/participants.tsv --out PREPARED --spacing-mm 2
    --imitations 3 python -m benchmarks.tissue --prepared PREPARED --out OUT [--seeds 5] [--volumes
    regional_volumes.tsv]

Everything goes through the package: maps by `prepare`, encoders by `pretrain`, features by `embed`.
In each seed two thirds of london's people are learned from; encoders are fitted on their scans, and
probes (ridge for age, or a Gaussian process: "process"; logistic regression for sex) on their real
scans. Tested: the other third of london, and novosibirsk and ucla, which nothing was learned from.
Where another site's healthy people are learned from too ("london + ucla"), the site left out and
london's third are tested. Error is split into bias and spread; "10 scans": the mean error of ten
people of the site is taken away, twenty draws. Intervals are of a bootstrap over people, whose
errors are averaged over seeds first; differences are paired.

Written to OUT: ``predictions.tsv`` (a row a person, seed and system) and ``tables.md``. Finished
encoders are kept: started again, it goes on. ``--tables`` makes the tables of what is there.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.tissue.members import (
    COMPARED_MEMBERS,
    JOINED_RUNS,
    choice_of,
    read_members,
    rows_of_joined_runs,
    rows_of_members,
)
from benchmarks.tissue.scoring import (
    HOME,
    auc_of,
    difference,
    features_of,
    interval,
    mae_of,
    predictions,
    score,
)
from benchmarks.tissue.systems import (
    BEST,
    BY_PROCESS,
    COMPARED,
    FIVE,
    GRID,
    JOINED,
    LINEAR,
    MEANS,
    MEMBERS,
    NETWORKS,
    five_members,
    linear,
    network,
    write_anatomy,
)
from neurocontrast.data import read_cohort
from neurocontrast.files import write_text

__all__ = ["GRID", "HOME", "LINEAR", "features_of", "predictions", "score"]

NEW = ("novosibirsk", "ucla")
PLACES = (f"{HOME}, held out", *NEW)
FOLDS = f"{HOME}, four fifths"
"""Five folds of london's people, one a seed: more to learn from than two thirds."""
N_FOLDS = 5
LEARNED = (HOME, *(f"{HOME} + {new}" for new in reversed(NEW)), FOLDS)
"""Sites that encoders and probes learn from."""
FEWER_SEEDS = 3
"""Seeds of variants of the network, which nothing is settled on."""


def systems_of(learned: str, seed: int, *, with_anatomy: bool) -> Iterator[str]:
    """Yield the names of the encoders that are fitted for some sites, in a seed."""
    if learned != HOME:
        yield from FIVE
        return
    yield from LINEAR
    for name in NETWORKS:
        if ("," not in name or seed < FEWER_SEEDS) and (with_anatomy or "anatomy" not in name):
            yield f"network, {name}"
    if seed < FEWER_SEEDS:
        yield MEMBERS


class Study:
    """The scans, and the features of any encoder of them, kept in a folder."""

    def __init__(
        self,
        prepared: Path,
        out: Path,
        volumes: Path | None,
        *,
        systems: Collection[str] = (),
        seeds: int = FEWER_SEEDS,
    ) -> None:
        self.systems = systems
        self.n_seeds_of_members = min(seeds, FEWER_SEEDS)
        self.everybody, self.out, self.volumes = prepared / "participants.tsv", out, volumes
        self.table = read_cohort(self.everybody).table
        self.imitations = pd.read_csv(
            prepared / "imitations.tsv", sep="\t", dtype=str, keep_default_na=False
        )
        for column in ("path", "gm", "wm", "csf"):
            self.imitations[column] = [
                str((prepared / path).resolve()) for path in self.imitations[column]
            ]
        if volumes is not None:
            write_anatomy(volumes, self.imitations, out / "anatomy.tsv")

    def rows(self, learned: str, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return who is learned from, and who is tested at each place."""
        site, healthy = (
            self.table["site"].to_numpy(),
            (self.table["diagnosis"] == "control").to_numpy(),
        )
        home = np.flatnonzero(site == HOME)
        if learned == FOLDS:
            held = np.isin(
                np.arange(len(site)),
                np.array_split(np.random.default_rng(0).permutation(home), 5)[seed],
            )
            return (site == HOME) & ~held, {PLACES[0]: held}
        held = np.isin(
            np.arange(len(site)), np.random.default_rng(seed).permutation(home)[: len(home) // 3]
        )
        others = learned.split(" + ")[1:]
        probed = ((site == HOME) & ~held) | (np.isin(site, others) & healthy)
        return probed, {PLACES[0]: held} | {new: site == new for new in NEW if new not in others}

    def features(self, name: str, learned: str, seed: int) -> np.ndarray:
        """Return the features of all real scans by an encoder of some sites' people, fitted unless that is done."""
        folder = self.out / f"{_file_name(learned)}-{seed}"
        folder.mkdir(exist_ok=True)
        scans = self.imitations
        scans = scans[
            scans["participant_id"].isin(self.table["participant_id"][self.rows(learned, seed)[0]])
        ]
        if name.startswith("network"):  # kernels over age need it
            scans = scans[scans["age"] != "n/a"]
        if name.startswith("pca") or "alone" in name:
            scans = scans[~scans["session"].str.contains("imitated")]
        if name in LINEAR:
            config = linear(name)
        elif name == MEMBERS:
            config = five_members()
        else:
            config = network(name.removeprefix("network, "), self.out / "anatomy.tsv")
        run = folder / _file_name(name)
        file = run.with_suffix(".tsv")
        if not file.is_file():
            scans.to_csv(file, sep="\t", index=False)
        return features_of({"seed": seed, **config}, file, self.everybody, run, self.out / "cache")

    def tested(self, learned: str, seed: int, *, only_there: bool) -> pd.DataFrame:
        """Return the predictions of every system for every person who is tested, a row each."""
        probed, places = self.rows(learned, seed)
        features = {}
        for name in systems_of(learned, seed, with_anatomy=self.volumes is not None):
            if self.systems and name not in self.systems:
                continue
            if (
                not only_there
                or (self.out / f"{_file_name(learned)}-{seed}/{_file_name(name)}.parquet").is_file()
            ):
                features[name] = self.features(name, learned, seed)
        members = features.pop(MEMBERS, None)
        predicted = {name: predictions(each, self.table, probed) for name, each in features.items()}
        for name in (name for name in BY_PROCESS if name in features):
            predicted[f"{name}; process"] = predictions(
                features[name], self.table, probed, gaussian_process=True
            )
        for name in (name for name in JOINED if {BEST, name} <= features.keys()):
            blocks = [features[BEST], features[name]]
            sizes = [block.shape[1] for block in blocks]
            joined = predictions(np.concatenate(blocks, axis=1), self.table, probed, sizes=sizes)
            predicted[f"joined: lda and {name}"] = joined
        for name, members in MEANS.items():
            if set(members) <= predicted.keys():
                predicted[name] = np.mean([predicted[member] for member in members], axis=0)
        if members is not None:
            predicted |= self._of_members(predicted, seed)
        rows = [self._rows_of(each, places, system=name) for name, each in predicted.items()]
        if learned == HOME:
            rows = [*self._baselines(probed, places), *rows]
        return pd.concat(rows).assign(learned=learned, seed=seed) if rows else pd.DataFrame()

    def _of_members(self, predicted: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
        """Return the predictions of one network, its components, both, five members, and joined runs."""
        runs = {}
        probed = {}
        for number in range(self.n_seeds_of_members):
            self.features(MEMBERS, HOME, number)
            runs[number] = read_members(
                self.out / f"{_file_name(HOME)}-{number}/{_file_name(MEMBERS)}.parquet"
            )
            probed[number] = self.rows(HOME, number)[0]
        rows, networks, weights = rows_of_members(runs, probed, seed, self.table)
        write_text(self.out / f"weights-{seed}.txt", "\n".join(map(str, weights)) + "\n")
        return rows | rows_of_joined_runs(predicted, networks)

    def _baselines(
        self, probed: np.ndarray, places: dict[str, np.ndarray]
    ) -> Iterator[pd.DataFrame]:
        """Yield the predictions of the median age, and of regional volumes where somebody has measured them."""
        median = np.nanmedian(self.table["age"].to_numpy(dtype=float)[probed])
        yield self._rows_of(
            np.full((len(self.table), 2), (median, 0.0)), places, system="median age"
        )
        if self.volumes is not None:
            volumes = pd.read_csv(self.volumes, sep="\t").set_index("participant_id")
            regions = (
                volumes.reindex(self.table["participant_id"]).fillna(0.0).to_numpy()
            )  # london alone has them
            at_home = {PLACES[0]: places[PLACES[0]]}
            yield self._rows_of(
                predictions(regions, self.table, probed), at_home, system="regional volumes"
            )

    def _rows_of(
        self, predicted: np.ndarray, places: dict[str, np.ndarray], **about: Any
    ) -> pd.DataFrame:
        found = self.table[["participant_id", "age"]].assign(
            male=self.table["sex"] == "M",
            error=predicted[:, 0] - self.table["age"].astype(float),
            odds=predicted[:, 1],
            half=np.arange(len(self.table)) % 2 + 1,
        )
        rows = [found[at].assign(place=place, **about) for place, at in places.items()]
        return pd.concat(rows).rename(columns={"participant_id": "person"})

    def site_and_diagnosis(self, name: str, seed: int) -> tuple[float, float]:
        """Return how well, in five folds, features tell held-out london from novosibirsk, and its patients, as AUC."""
        features, (_, places) = self.features(name, HOME, seed), self.rows(HOME, seed)
        there, probe = (
            places[NEW[0]],
            make_pipeline(StandardScaler(), PCA(), LogisticRegression(C=0.01, max_iter=2000)),
        )
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        found = []
        for at, truth in (
            (places[PLACES[0]] | there, there),
            (there, self.table["diagnosis"].to_numpy() != "control"),
        ):
            odds = cross_val_predict(
                probe, features[at], truth[at], cv=folds, method="decision_function"
            )
            found.append(float(roc_auc_score(truth[at], odds)))
        return found[0], found[1]


def _file_name(name: str) -> str:
    return re.sub(r"\W+", "-", name)


def table_of(tested: pd.DataFrame) -> str:
    """Return a table of Markdown: each system at each place."""
    places = [place for place in PLACES if place in set(tested["place"])]
    lines = ["| system (seeds) | " + " | ".join(places) + " |", "|---" * (len(places) + 1) + "|"]
    for name, of_system in tested.groupby("system", sort=False):
        cells = [
            _cell(of_system[of_system["place"] == place], is_home=place == PLACES[0])
            for place in places
        ]
        lines.append(f"| {name} ({of_system['seed'].nunique()}) | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(tested: pd.DataFrame, *, is_home: bool) -> str:
    if tested.empty:
        return "–"
    table = tested.assign(sex=np.where(tested["male"], "M", "F"))
    scores = []
    for _, each in table.groupby("seed"):
        predicted = np.stack([each["age"] + each["error"], each["odds"]], axis=1).astype(float)
        scores += score(predicted, each, {"here": np.ones(len(each), dtype=bool)})
    mean = pd.DataFrame(scores).mean(numeric_only=True)
    age, low, high = interval(mae_of(tested))
    sex = "{:.2f} [{:.2f}, {:.2f}]".format(*interval(auc_of(tested)))
    beside = (
        ""
        if is_home
        else f" ({mean['bias']:+.1f}, {mean['spread']:.1f}), {mean['MAE, 10 shots']:.1f}"
    )
    return f"{age:.1f} [{low:.1f}, {high:.1f}]{beside}; {sex}".replace("-", "−")


def differences_of(tested: pd.DataFrame) -> str:
    """Return a table of Markdown: pairs of systems, paired over the people of the seeds that both have."""
    columns = {
        "at home": [PLACES[0]],
        **{new: [new] for new in NEW},
        "mean of new sites": list(NEW),
    }
    lines = [
        "| first − second | years " + " | years ".join(columns) + " | sex AUC, new sites |",
        "|---" * 6 + "|",
    ]
    for names in (*COMPARED, *COMPARED_MEMBERS):
        pair = [tested[tested["system"] == name] for name in names]
        seeds = set(pair[0]["seed"]) & set(pair[1]["seed"])
        if not seeds:
            continue
        pair = [each[each["seed"].isin(seeds)] for each in pair]
        cells = [
            _with_interval(difference(*pair, places, mae_of), ".1f") for places in columns.values()
        ]
        cells.append(_with_interval(difference(*pair, list(NEW), auc_of), ".2f"))
        lines.append(f"| {names[0]} − {names[1]} ({len(seeds)}) | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _with_interval(found: tuple[float, float, float], form: str) -> str:
    value, low, high = (f"{each:+{form}}".replace("-", "−") for each in found)
    settled = found[1] > 0 or found[2] < 0
    return f"**{value}** [{low}, {high}]" if settled else f"{value} [{low}, {high}]"


def beside_of(study: Study, tested: pd.DataFrame) -> str:
    """Return a table of Markdown: what features tell of site and diagnosis, means over seeds."""
    lines = ["| system | site, AUC | depression, AUC |", "|---|---|---|"]
    for name in ("pca, intensities", "pca, grey + white + fluid, 14 mm", BEST, *JOINED):
        seeds = tested.loc[tested["system"] == name, "seed"].unique()
        if not len(seeds):
            continue
        site, diagnosis = np.mean([study.site_and_diagnosis(name, seed) for seed in seeds], axis=0)
        lines.append(f"| {name} ({len(seeds)}) | {site:.2f} | {diagnosis:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Fit what is not there, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prepared", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--volumes", type=Path, help="regional volumes, for the kernel on them; otherwise left out"
    )
    parser.add_argument(
        "--systems", nargs="+", default=(), help="encoders of the tables; all by default"
    )
    parser.add_argument(
        "--learned", nargs="+", choices=LEARNED, default=LEARNED, help="sites learned from"
    )
    parser.add_argument(
        "--tables", action="store_true", help="of the encoders that are there alone"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter(
        "ignore"
    )  # of the median age, which has no ranks, and of processes without noise
    study = Study(
        options.prepared,
        options.out,
        options.volumes,
        systems=options.systems,
        seeds=options.seeds,
    )
    found = []
    for seed in range(options.seeds):
        for learned in options.learned:
            if learned == FOLDS and seed >= N_FOLDS:
                continue
            found.append(study.tested(learned, seed, only_there=options.tables))
            pd.concat(found).to_csv(options.out / "predictions.tsv", sep="\t", index=False)
        print(f"seed {seed} of {options.seeds} done", flush=True)
    tested = pd.concat(found)
    alone = tested[tested["learned"] == HOME]
    text = [f"## {HOME} learned from\n", table_of(alone), "## Differences\n", differences_of(alone)]
    judged = alone["system"].isin({BEST, *MEANS, *JOINED_RUNS})
    rest = alone[(alone["half"] == 2) & judged]
    text += [
        "## The half of the people that chose nothing\n",
        table_of(rest),
        differences_of(alone[alone["half"] == 2]),
    ]
    if set(JOINED_RUNS) & set(alone["system"]):
        of_seeds = alone[alone["seed"] < FEWER_SEEDS]
        text += ["## Runs that are joined\n", choice_of(of_seeds, PLACES[0], NEW)]
    with_ucla, with_new = (tested[tested["learned"] == f"{HOME} + {new}"] for new in reversed(NEW))
    others = pd.concat([with_ucla, with_new[with_new["place"] == NEW[1]]])
    text += [
        "## ucla learned from too; ucla: novosibirsk's healthy people learned from too\n",
        table_of(others),
    ]
    text += [
        "## Four fifths of london learned from\n",
        table_of(tested[tested["learned"] == FOLDS]),
    ]
    text += ["## Site and diagnosis\n", beside_of(study, alone)]
    (options.out / "tables.md").write_text("\n".join(text), encoding="utf-8")
    print("\n".join(text))


if __name__ == "__main__":
    main()

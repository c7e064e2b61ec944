"""Rows of `tissue.py` of five networks with components beside them, and of runs that are joined.

A network, its components, both, five networks and five of both come from one run of five members.
Joined runs are judged as `neurocontrast join` makes them: a probe for each encoder (ridge
regression of age, logistic regression of sex), and the mean of the ages and of the probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import expit, log_expit, logit
from sklearn.model_selection import KFold

from benchmarks.tissue.scoring import auc_of, mae_of, predictions
from benchmarks.tissue.systems import BEST, FIVE
from neurocontrast.embedding import read_embeddings
from neurocontrast.evaluation.probes.designs import WEIGHTS
from neurocontrast.evaluation.probes.members import members_of

Floats = npt.NDArray[np.floating[Any]]
Mask = npt.NDArray[np.bool_]
N_MEMBERS = 5
N_FOLDS = 5
NETWORK = "network, conditional, tissue_shift; member 1"
COMPONENTS = "components beside it"
BOTH = "both, weight by people not learned from"
BOTH_BY_LEARNED = "both, weight by people learned from"
FIVE_NETWORKS = "five networks, conditional, tissue_shift"
FIVE_BOTH = "five of both, weights by people not learned from"
RUN_OF = "joined run: "
JOINED_RUNS: dict[str, tuple[tuple[str, ...], int]] = {
    f"{RUN_OF}lda": ((BEST,), 0),
    f"{RUN_OF}lda, a network": ((BEST,), 1),
    f"{RUN_OF}lda, five networks": ((BEST,), N_MEMBERS),
    f"{RUN_OF}five linear": (FIVE, 0),
    f"{RUN_OF}five linear, a network": (FIVE, 1),
    f"{RUN_OF}five linear, five networks": (FIVE, N_MEMBERS),
}
"""Linear encoders, and number of networks, of each run that is tried as weights to ship."""

COMPARED_MEMBERS = (
    (BOTH, COMPONENTS),
    (BOTH, NETWORK),
    (BOTH, BOTH_BY_LEARNED),
    (FIVE_NETWORKS, NETWORK),
    (FIVE_BOTH, BOTH),
    (FIVE_BOTH, FIVE_NETWORKS),
    (FIVE_BOTH, COMPONENTS),
    (FIVE_BOTH, BEST),
    *((name, f"{RUN_OF}lda") for name in list(JOINED_RUNS)[1:]),
    (f"{RUN_OF}five linear, a network", f"{RUN_OF}five linear"),
    (f"{RUN_OF}five linear, five networks", f"{RUN_OF}five linear"),
    (f"{RUN_OF}five linear, five networks", f"{RUN_OF}five linear, a network"),
)
"""Pairs of rows whose difference is measured."""


@dataclass(frozen=True, eq=False)
class MemberFeatures:
    """Features of all scans by a member of a run: of its network, and of the components beside it."""

    network: Floats
    components: Floats

    def predicted(self, table: pd.DataFrame, probed: Mask, weight: float) -> Floats:
        """Return age and log odds of "male", with this share of the variance for the network."""
        if weight == 1:
            return predictions(self.network, table, probed)
        if weight == 0:
            return predictions(self.components, table, probed)
        blocks = np.hstack([self.network, self.components])
        sizes = (self.network.shape[1], self.components.shape[1])
        return predictions(blocks, table, probed, sizes=sizes, weights=(weight, 1 - weight))


@dataclass(frozen=True, eq=False)
class WeightFold:
    """People by whom the weight of the network's block is chosen, and a member that is tried."""

    member: MemberFeatures
    fitted: Mask
    tried: Mask


@dataclass(frozen=True)
class BlockWeights:
    """Share of the network's block in the variance of the features, for each target."""

    age: float
    sex: float


def read_members(embeddings: Path) -> list[MemberFeatures]:
    """Read the features of each member of a run from the table that `embed` wrote."""
    read = read_embeddings(embeddings)
    features = read.features.astype(float)
    members = []
    start = 0
    for member in members_of(read.info, features.shape[1]):
        end = start + member.n_features
        middle = end - member.n_components
        members.append(MemberFeatures(features[:, start:middle], features[:, middle:end]))
        start = end
    return members


def choose_weights(folds: Sequence[WeightFold], table: pd.DataFrame) -> BlockWeights:
    """Choose the weight with the least squared error of age, and with the least log loss of sex."""
    age = table["age"].to_numpy(dtype=float)
    is_male = (table["sex"] == "M").to_numpy()
    squares = dict.fromkeys(WEIGHTS, 0.0)
    losses = dict.fromkeys(WEIGHTS, 0.0)
    for fold in folds:
        aged = fold.tried & ~np.isnan(age)
        signs = np.where(is_male[fold.tried], 1, -1)
        for weight in WEIGHTS:
            predicted = fold.member.predicted(table, fold.fitted, weight)
            squares[weight] += float(np.sum((predicted[aged, 0] - age[aged]) ** 2))
            losses[weight] -= float(np.sum(log_expit(signs * predicted[fold.tried, 1])))
    return BlockWeights(
        age=min(squares, key=squares.__getitem__), sex=min(losses, key=losses.__getitem__)
    )


def folds_among(member: MemberFeatures, probed: Mask) -> list[WeightFold]:
    """Return five folds of the people whom the network learned from."""
    folds = []
    rows = np.flatnonzero(probed)
    for fit, tried in KFold(N_FOLDS, shuffle=True, random_state=0).split(rows):
        folds.append(WeightFold(member, _mask(rows[fit], probed), _mask(rows[tried], probed)))
    return folds


def _mask(rows: npt.NDArray[np.intp], like: Mask) -> Mask:
    mask = np.zeros_like(like)
    mask[rows] = True
    return mask


def predict_both(
    member: MemberFeatures, table: pd.DataFrame, probed: Mask, weights: BlockWeights
) -> Floats:
    """Return age and log odds of "male" from both blocks, each target with its weight."""
    age = member.predicted(table, probed, weights.age)
    sex = age
    if weights.sex != weights.age:
        sex = member.predicted(table, probed, weights.sex)
    return np.stack([age[:, 0], sex[:, 1]], axis=1)


def mean_of_members(predicted: Sequence[Floats]) -> Floats:
    """Return the mean age, and the log odds of the mean probability, as a run of members predicts."""
    stacked = np.stack(predicted)
    probability = np.clip(expit(stacked[:, :, 1]).mean(axis=0), 1e-12, 1 - 1e-12)
    return np.stack([stacked[:, :, 0].mean(axis=0), logit(probability)], axis=1)


def rows_of_members(
    runs: Mapping[int, Sequence[MemberFeatures]],
    probed: Mapping[int, Mask],
    seed: int,
    table: pd.DataFrame,
) -> tuple[dict[str, Floats], list[Floats], list[BlockWeights]]:
    """Return the predictions of each row, those of each network alone, and the weights of members.

    `runs` and `probed` are the members, and the people learned from, of all seeds. The weight of a
    member is chosen with the same member of the other seeds: their probes are fitted to people whom
    both seeds learned from, and tried on people whom only this seed's network learned from. Nobody
    who is tested in this seed is among them.
    """
    networks = []
    of_both = []
    weights = []
    for number, member in enumerate(runs[seed]):
        folds = []
        for other in sorted(runs.keys() - {seed}):
            fitted = probed[seed] & probed[other]
            folds.append(WeightFold(runs[other][number], fitted, probed[seed] & ~probed[other]))
        weights.append(choose_weights(folds, table))
        networks.append(member.predicted(table, probed[seed], 1.0))
        of_both.append(predict_both(member, table, probed[seed], weights[-1]))
    first = runs[seed][0]
    by_learned = choose_weights(folds_among(first, probed[seed]), table)
    rows = {
        NETWORK: networks[0],
        COMPONENTS: first.predicted(table, probed[seed], 0.0),
        BOTH: of_both[0],
        BOTH_BY_LEARNED: predict_both(first, table, probed[seed], by_learned),
        FIVE_NETWORKS: mean_of_members(networks),
        FIVE_BOTH: mean_of_members(of_both),
    }
    return rows, networks, [*weights, by_learned]


def rows_of_joined_runs(
    predicted: Mapping[str, Floats], networks: Sequence[Floats]
) -> dict[str, Floats]:
    """Return the predictions of each joined run whose encoders are there."""
    rows = {}
    for name, (linear, n_networks) in JOINED_RUNS.items():
        if set(linear) <= predicted.keys() and n_networks <= len(networks):
            of_members = [predicted[encoder] for encoder in linear]
            rows[name] = mean_of_members([*of_members, *networks[:n_networks]])
    return rows


def choice_of(tested: pd.DataFrame, home: str, new: Sequence[str]) -> str:
    """Return a table of Markdown: joined runs on the half of the people that chooses, and the other.

    A run's cost is the mean of four figures, each over that of the discriminants alone: error of
    age at home, its mean over new scanners, and what the AUC of sex leaves open at home and there.
    """
    lines = [
        "| joined run | cost, half that chose | cost, other half | years, other half: home | "
        "new scanners | sex AUC, other half: home | new scanners |",
        "|---" * 7 + "|",
    ]
    baselines = []
    for half in (1, 2):
        baselines.append(_figures(tested, f"{RUN_OF}lda", half, home, new))
    for name in JOINED_RUNS:
        if name not in set(tested["system"]):
            continue
        costs = []
        for half, baseline in zip((1, 2), baselines, strict=True):
            figures = _figures(tested, name, half, home, new)
            costs.append(float(np.mean(figures / baseline)))
        shown = (*costs, figures[0], figures[1], 1 - figures[2], 1 - figures[3])
        cells = "{:.3f} | {:.3f} | {:.1f} | {:.1f} | {:.2f} | {:.2f}".format(*shown)
        lines.append(f"| {name.removeprefix(RUN_OF)} | {cells} |")
    return "\n".join(lines) + "\n"


def _figures(tested: pd.DataFrame, name: str, half: int, home: str, new: Sequence[str]) -> Floats:
    rows = tested[(tested["system"] == name) & (tested["half"] == half)]
    ages = []
    sexes = []
    for place in (home, *new):
        at = rows[rows["place"] == place]
        ages.append(mae_of(at)[0])
        sexes.append(1 - auc_of(at)[0])
    return np.array([ages[0], np.mean(ages[1:]), sexes[0], np.mean(sexes[1:])])

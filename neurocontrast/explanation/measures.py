"""Attribute differences in a probe's score between subjects to regional measures.

The score is computed again with each measure set to its mean over the people with whom the encoder
was trained.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

import numpy as np
import numpy.typing as npt
import torch

from neurocontrast.exceptions import DataError
from neurocontrast.explanation import ExplanationSettings
from neurocontrast.explanation.maps import (
    LinearScore,
    align,
    names_of_blocks,
    shares_of_blocks,
)
from neurocontrast.parallel.devices import usable_accelerator
from neurocontrast.progress import SILENT, Progress


@dataclass(frozen=True, eq=False)
class ScoredMeasures:
    """Score of one encoder and its linear probe, with the measures that the encoder reads.

    The encoder may be a member of a run of several encoders.

    Attributes
    ----------
    score : LinearScore
        Encoder with a linear probe.
    values : array (n, n_measures)
        Standardised measures of each subject, in the form that the encoder reads.
    columns : sequence of str
        Name of each measure.
    """

    score: LinearScore
    values: npt.NDArray[np.float32]
    columns: Sequence[str]


@dataclass(frozen=True)
class MeasureShares:
    """Share of each regional measure in the differences in score between subjects.

    Attributes
    ----------
    share : array (n_measures,)
        Share of each measure in the differences of the score.
    interval : array (2, n_measures)
        Lower and upper limit of the 95 % bootstrap interval of `share`.
    scores : list of float
        Score of each subject.
    by_block : dict of str to array (n_measures,)
        Share of each measure by way of each block of features (network, linear components); the
        shares of all blocks add up to `share`. Empty if there is one block.
    block_shares : dict of str to float
        Share of each block in the differences in score; the shares add up to 1.
    """

    share: npt.NDArray[np.float64]
    interval: npt.NDArray[np.float64]
    scores: list[float]
    by_block: dict[str, npt.NDArray[np.float64]]
    block_shares: dict[str, float]


@torch.no_grad()
def explain_measures(
    members: Sequence[ScoredMeasures],
    columns: Sequence[str],
    draws: Iterable[npt.NDArray[np.float64]],
    *,
    settings: ExplanationSettings,
    progress: Progress = SILENT,
) -> MeasureShares:
    """Compute the share of each regional measure in the differences in score between subjects.

    A measure's contribution to a subject's score is the fall of the score when the measure is set
    to the mean over the training people. The measure's share is the regression coefficient of this
    contribution on the score over subjects, as in the maps of `explain_scans`; the shares of a
    linear encoder add up to 1. For several members of a run, score and contributions are means over
    the members; a measure that a member does not read contributes 0 to the member's score.

    Parameters
    ----------
    members : sequence of ScoredMeasures
        Score and measures of each member, of the same subjects.
    columns : sequence of str
        Names of the measures that any member reads.
    draws : iterable of array (n_resamples, n)
        Number of times that each subject is drawn in each resample, for the intervals.
    settings : ExplanationSettings
        Settings, of which the accelerator is used.
    progress : Progress
        Receives progress messages, one for each measure.

    Returns
    -------
    MeasureShares
        Share of each of `columns` with its bootstrap interval, the subjects' scores, and the shares
        of the blocks of features if there are several.

    Raises
    ------
    DataError
        If a score is not finite, or all scores are the same.
    """
    names = names_of_blocks(map(attrgetter("score"), members))
    scores = []
    carried_by_members = []
    n_measures = sum(map(len, map(attrgetter("columns"), members)))
    with progress.task("Explaining", n_measures, "measures") as task:
        for member in members:
            member.score.to(usable_accelerator(settings.accelerator, section="explanation"))
            of_member, carried_by_member = _carry(member, task.advance)
            scores.append(align(of_member.T, member.score, names).T)
            positions = list(map(list(columns).index, member.columns))
            aligned = align(carried_by_member, member.score, names)
            spread = np.zeros((*aligned.shape[:2], len(columns)))
            spread[:, :, positions] = aligned
            carried_by_members.append(spread)
    contributions = np.mean(scores, axis=0)
    carried = np.mean(carried_by_members, axis=0)
    whole = contributions[:, 0]
    if not np.isfinite(carried).all() or not np.ptp(whole) > 0:
        raise DataError(
            "all chosen subjects have the same score, or one that is not finite: nothing can be "
            "explained."
        )

    def shares(
        weights: npt.NDArray[np.float64], carried: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        away = whole - (weights @ whole / weights.sum(axis=1))[:, None]
        squares = (weights * away**2).sum(axis=1, keepdims=True)
        return (weights * away) @ carried / np.where(squares > 0, squares, np.nan)

    drawn = list[npt.NDArray[np.float64]]()
    for weights in draws:
        drawn.append(shares(weights, carried[0]))
    once = np.ones((1, len(whole)))
    share, *of_blocks = np.concatenate(list(map(partial(shares, once), carried)))
    return MeasureShares(
        share=share,
        interval=np.nanpercentile(np.vstack(drawn), (2.5, 97.5), axis=0),
        scores=whole.tolist(),
        by_block=dict(zip(names, of_blocks, strict=True)),
        block_shares=shares_of_blocks(names, contributions),
    )


def _carry(
    member: ScoredMeasures, advance: Callable[[], None]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Compute each subject's score by block of features, and again with each measure at its mean.

    `member` has one encoder of the run, with a probe, and the subjects' measures. They are
    standardised, so that 0 is the mean of a measure over the training people. `advance` is called
    after each measure.

    Returns
    -------
    contributions : array (n, 1 + n_blocks)
        Score of each subject, and the part of the score from each block of features.
    losses : array (1 + n_blocks, n, n_measures)
        Falls of these contributions after a measure was set to its mean.
    """
    values = member.values
    samples = torch.from_numpy(values).to(member.score.weights.device)[..., None]
    contributions = member.score.contributions(samples).cpu().numpy()
    carried = np.empty((contributions.shape[1], *values.shape))
    for column in range(values.shape[1]):
        without = samples.clone()
        without[:, column] = 0.0
        changed = member.score.contributions(without).cpu().numpy()
        carried[:, :, column] = (contributions - changed).T
        advance()
    return contributions, carried

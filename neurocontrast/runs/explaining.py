"""Find the run and the scans behind an evaluation, and choose the scans to explain."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from operator import attrgetter
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from neurocontrast.data import Cohort
from neurocontrast.data.settings import AnyDataSettings, MeasureDataSettings
from neurocontrast.data.sources import Brains
from neurocontrast.documents.embeddings import read_embeddings
from neurocontrast.documents.encoder import EncoderContract, EncoderDescription
from neurocontrast.documents.result import EmbeddingsOrigin
from neurocontrast.embedding.readers import check_same_scans
from neurocontrast.encoders.members import digest_of_members, has_members, read_record
from neurocontrast.encoders.weights import CONTRACT, MEMBERS, digest_of_weights
from neurocontrast.evaluation import FittedProbe, read_evaluation
from neurocontrast.evaluation.probes.designs import is_joined
from neurocontrast.exceptions import ConfigError, DataError, NeurocontrastError, one_of, suggestion
from neurocontrast.explanation import ExplanationSettings, LinearScore
from neurocontrast.explanation.maps import SUBJECTS_A_LATTICE
from neurocontrast.files import digest_of_file, files_near
from neurocontrast.progress import Progress
from neurocontrast.reading import read_json
from neurocontrast.runs.networks import check_probe_members, first_alike
from neurocontrast.runs.skipped import leave_out
from neurocontrast.seeds import derive_generator
from neurocontrast.weights import load, names


@dataclass(frozen=True, eq=False)
class Look:
    """Network of a run with a probe's linear score, and the scans for which the score is explained.

    The score is a weighted sum of the network's features, with the weights of a linear probe. A run
    has one network or several, called members; `explain` makes one `Look` for each.
    """

    score: LinearScore
    source: Brains
    cohort: Cohort


def _digest_of_run(run: Path) -> str | None:
    """Return the digest of a run's weights as text; for several encoders, one joint digest.

    Tables of embeddings record the same digest. The result is None if not all encoders are trained.
    """
    if has_members(run):
        return digest_of_members(read_record(run))
    return digest_of_weights(run)


def find_run(evaluation: Path, probe: FittedProbe) -> Path:
    """Return the folder of the run, or of installed weights, whose digest is the one in `probe`.

    The digest is of the weights that made the features to which the probe was fitted. Runs are
    looked for in the parent folder of `evaluation`, the folder above, the working directory, and up
    to two levels below each; then among installed weights. If no run and no weights have the
    digest, a ConfigError asks the user for the path of the run.
    """
    digest = (probe.encoder or "").partition(",")[0]
    for path in files_near(evaluation, CONTRACT):
        with suppress(NeurocontrastError):  # another file of that name
            described = EncoderDescription.of(read_json(path), path)
            if digest and described.weights.sha256 == digest:
                return path.parent
    for path in files_near(evaluation, MEMBERS):
        with suppress(NeurocontrastError):  # another file of that name
            if digest and digest_of_members(read_record(path.parent)) == digest:
                return path.parent
    for name in names():
        run = load(name).path
        with suppress(NeurocontrastError):
            if digest and _digest_of_run(run) == digest:
                return run
    encoder = "an encoder that the evaluation does not name"
    if digest:
        encoder = f"the encoder '{digest[:12]}…'"
    raise ConfigError(
        f"run: {encoder} made the embeddings, and no run near {evaluation} has it. "
        "Give the run: run=RUN."
    )


def settings_as_embedded(
    data: AnyDataSettings, evaluation: Path, contract: EncoderContract
) -> AnyDataSettings:
    """Return section ``data``, with the share of missing measures that was allowed in `evaluation`.

    The share (``max_missing``) is read from the record in the folder `evaluation`. Section `data`
    is the user's configuration; a share stated there is kept. Evaluations of earlier versions
    record no share, which leaves the section unchanged. It is unchanged too for an encoder of
    scans, as `contract` (its ``encoder.json``) tells.
    """
    if contract.preprocessing.kind != "measures":
        return data
    allowed = read_evaluation(evaluation).embeddings.max_missing
    if allowed is None or "max_missing" in data.model_fields_set:
        return data
    if not isinstance(data, MeasureDataSettings):
        skips = getattr(data, "skip_unreadable", False)
        data = MeasureDataSettings(n_workers=data.n_workers, skip_unreadable=skips)
    return data.model_copy(update={"max_missing": allowed})


def leave_out_evaluated(
    sources: Sequence[Brains], listed: Cohort, evaluated: pd.DataFrame, progress: Progress
) -> pd.DataFrame:
    """Return the rows of table `evaluated` whose scans every network can read.

    Without the setting ``data.skip_unreadable`` the whole table is returned. `sources` has for each
    network of a run the object that reads and preprocesses scans. `listed` is the cohort of all
    scans in the user's table of scans, as the first network lists them; their files are not read
    yet.
    """
    if not sources[0].skips:
        return evaluated
    keys = list(zip(evaluated["participant_id"], evaluated["session"], strict=True))
    usable = set(keys)
    for number in dict.fromkeys(first_alike(sources)):
        cohort = listed
        if number:
            cohort = sources[number].read_cohort(listed.source, check_images=False)
        kept, _ = leave_out(sources[number], _only(cohort, set(keys)), progress)
        usable &= _scans_in(kept.table)
    is_usable = pd.Series(keys, index=evaluated.index).isin(usable)
    return evaluated[is_usable].reset_index(drop=True)


def find_cohort(
    evaluation: Path,
    evaluated: pd.DataFrame,
    source: Brains,
    images_root: str | os.PathLike[str] | None,
) -> Cohort:
    """Find the table of scans that were embedded for an evaluation, and return all its scans.

    A file is the table if it has the file name that the record in the folder `evaluation` states,
    holds all scans in `evaluated`, and has the recorded digest. It is looked for in the parent
    folder of `evaluation`, the folder above, the working directory, and up to two levels below
    each. If there is no such table, a ConfigError asks the user for its path.
    """
    origin = read_evaluation(evaluation).embeddings
    name = origin.cohort_source or "participants.tsv"
    scans = _scans_in(evaluated)
    selections = [scans]
    embedded = _find_embedded(evaluation, origin)
    if embedded is not None:
        selections.append(embedded)
    for path in files_near(evaluation, name):
        with suppress(NeurocontrastError):  # another file of that name
            cohort = source.read_cohort(path, images_root=images_root, check_images=False)
            if not scans <= _scans_in(cohort.table):
                continue
            # Scans that `embed` left out are in the table, and not in the digest.
            digests = {None, cohort.digest()}
            for selection in selections:
                digests.add(_only(cohort, selection).digest())
            if origin.cohort_digest in digests:
                return cohort
    raise ConfigError(
        f"participants: no '{name}' near {evaluation} holds the evaluated scans as they were "
        "embedded. Give the table that was embedded: participants=TABLE."
    )


def _find_embedded(evaluation: Path, origin: EmbeddingsOrigin) -> set[tuple[str, str]] | None:
    """Return participant and session of all scans in the table of embeddings that was evaluated.

    The result is a set of pairs, or None if the table is not found. The evaluation itself has fewer
    scans if its settings select rows. The table is the file whose name and digest are in `origin`,
    a part of the evaluation's record. It is looked for in the parent folder of `evaluation`, the
    folder above, the working directory, and up to two levels below each.
    """
    if origin.file is None:
        return None
    for path in files_near(evaluation, origin.file):
        if digest_of_file(path) == origin.digest:
            return _scans_in(read_embeddings(path).table)
    return None


def _scans_in(table: pd.DataFrame) -> set[tuple[str, str]]:
    """Return the pairs of participant and session in a table of scans, or of predictions."""
    participants = table["participant_id"].astype(str)
    return set(zip(participants, table["session"].astype(str), strict=True))


def _only(cohort: Cohort, scans: set[tuple[str, str]]) -> Cohort:
    """Return the rows of a cohort whose participant and session are in `scans`."""
    names = zip(cohort.table["participant_id"], cohort.table["session"], strict=True)
    return cohort.subset([row for row, name in enumerate(names) if name in scans])


def _choose_scans(
    cohort: Cohort, evaluated: pd.DataFrame, probe: FittedProbe, settings: ExplanationSettings
) -> tuple[Cohort, list[str]]:
    """Choose one scan of each subject to explain, by the seed; return scans and true labels.

    Classes get equal numbers of scans; scans of a continuous target cover its range evenly.
    """
    names = zip(cohort.table["participant_id"], cohort.table["session"], strict=True)
    row_of = {
        (str(participant), str(session)): row for row, (participant, session) in enumerate(names)
    }
    keys = list(zip(evaluated["participant_id"], evaluated["session"], strict=True))
    lacking = [" session ".join(filter(None, key)) for key in keys if key not in row_of]
    if lacking:
        more = f" and {len(lacking) - 10} more" if len(lacking) > 10 else ""
        raise DataError(
            f"{cohort.source.name}: {len(lacking)} of {len(keys)} evaluated scans are not in it: "
            f"{', '.join(lacking[:10])}{more}. Give the table that was embedded."
        )
    first = ~evaluated["subject_id"].duplicated().to_numpy()
    candidates = np.flatnonzero(first)
    truths = evaluated["y_true"].to_numpy(dtype=object)
    shuffled = candidates[
        derive_generator("explained-subjects", settings.seed).permutation(len(candidates))
    ]
    if probe.kind == "continuous":
        ordered = shuffled[np.argsort([float(truths[row]) for row in shuffled], kind="stable")]
        n_wanted = min(settings.n_subjects, len(ordered))
        even = ordered[np.linspace(0, len(ordered) - 1, n_wanted).round().astype(int)].tolist()
        n_groups = max(1, n_wanted // SUBJECTS_A_LATTICE)
        picked = [
            row for first in range(n_groups) for row in even[first::n_groups]
        ]  # neighbours differ
    else:
        of_class = [
            [row for row in shuffled.tolist() if truths[row] == name] for name in probe.classes
        ]
        turns = [row for turn in zip_longest(*of_class) for row in turn if row is not None]
        n_each = min(map(len, of_class))
        picked = turns[: min(settings.n_subjects, n_each * len(of_class)) or settings.n_subjects]
    return cohort.subset([row_of[keys[row]] for row in picked]), [
        str(truths[row]) for row in picked
    ]


def choose_for_each(
    sources: Sequence[Brains],
    listed: Cohort,
    images_root: str | os.PathLike[str] | None,
    evaluated: pd.DataFrame,
    probe: FittedProbe,
    settings: ExplanationSettings,
) -> tuple[list[Cohort], list[str]]:
    """Choose the scans to explain, the same for all networks of a run; return scans and labels.

    `sources` has for each network the object that reads and preprocesses its scans. The result has
    a cohort for each network, the chosen scans as its source reads them, and the true label of each
    chosen scan as text. `listed` is the cohort of all scans in the user's table of scans, as the
    first network lists them. A ConfigError refuses networks of which some read scans, others
    regional measures.
    """
    if len(set(map(type, sources))) > 1:
        raise ConfigError(
            "explain: some members of this run read scans, others regional measures, and there is "
            "no map of both. Embed with one member, RUN/members/0, evaluate that, and explain it."
        )
    chosen = dict[int, Cohort]()
    truths = list[str]()
    first = first_alike(sources)
    for number in dict.fromkeys(first):
        cohort = listed
        if number:
            cohort = sources[number].read_cohort(
                listed.source, images_root=images_root, check_images=False
            )
        chosen[number], truths = _choose_scans(cohort, evaluated, probe, settings)
    check_same_scans(list(chosen.values()))
    return list(map(chosen.__getitem__, first)), truths


@dataclass(frozen=True)
class ScoreMeaning:
    """Words for the probe score that `explain` explains, such as the log-odds of a class."""

    score: str
    positive: str | None = None
    """Class for which a high score speaks; None for a continuous target."""


def readout_of(
    probe: FittedProbe, positive: str | None
) -> tuple[list[tuple[npt.NDArray[np.float64], float]], ScoreMeaning]:
    """Return the score of a probe to explain, as weights and intercepts, and its meaning in words.

    The first value has for each network of the run, in order, a pair: weights (n_features,), for
    features that are not standardised, and intercept. A run has one network or several, called
    members. A probe of joined features of several runs is refused.
    """
    if is_joined(probe.blocks):
        encoders = one_of(map(attrgetter("name"), probe.blocks))
        raise ConfigError(
            f"explanation: the probe was fitted on joined features ({encoders}), and a map is of "
            "one encoder. Explain an evaluation of one of them."
        )
    contrast, meaning = _contrast(probe, positive)
    sizes = list(map(attrgetter("n_features"), probe.members)) or [probe.n_features]
    readouts = []
    start = 0
    for size, intercept in zip(sizes, np.atleast_2d(probe.intercept), strict=True):
        of_member = slice(start, start + size)
        start += size
        coefficients = probe.coefficients[of_member]
        weights = coefficients / probe.scale[of_member, None]
        means = probe.mean[of_member] / probe.scale[of_member]
        intercepts = intercept - means @ coefficients
        readouts.append((weights @ contrast, float(intercepts @ contrast)))
    if probe.members:
        meaning = replace(meaning, score=f"{meaning.score}, mean of {len(sizes)} members")
    return readouts, meaning


def _contrast(
    probe: FittedProbe, positive: str | None
) -> tuple[npt.NDArray[np.float64], ScoreMeaning]:
    """Return the weight of each output of a probe in the score to explain, and the score in words.

    The score is the predicted value of a continuous target, or the log-odds of the positive class
    of two classes. With more classes, the score is the decision value of the class `positive`, less
    the mean of the decision values of all others. A ConfigError refuses any other `positive`.
    """
    if probe.kind == "continuous":
        _check_positive(positive, None, "left out: the target is a number")
        return np.ones(1), ScoreMeaning("predicted value")
    if probe.kind == "binary":
        evaluated = probe.classes[1]
        _check_positive(positive, evaluated, f"'{evaluated}', which the evaluation had")
        return np.ones(1), ScoreMeaning("decision value (log-odds)", evaluated)
    if positive not in probe.classes:
        problem = "missing"
        hint = ""
        if positive is not None:
            problem = f"there is no class '{positive}'"
            hint = suggestion(positive, probe.classes)
        raise ConfigError(
            f"explanation.positive: {problem}; of several classes one must be named: "
            f"positive=NAME.{hint} It can be: {one_of(probe.classes)}."
        )
    # The class itself, less the mean of the others.
    contrast = np.full(len(probe.classes), -1 / (len(probe.classes) - 1))
    contrast[probe.classes.index(positive)] = 1
    meaning = "decision value of the class, less the mean of the others'"
    return contrast, ScoreMeaning(meaning, positive)


def _check_positive(positive: str | None, evaluated: str | None, allowed: str) -> None:
    """Refuse a setting ``explanation.positive`` that is not the positive class of the probe.

    The probe predicts one of two classes, of which `evaluated` is the positive, or a number, for
    which `evaluated` is None. Without the setting, `positive` is None, and nothing is refused.
    `allowed` says in the message of the ConfigError how the setting must be.
    """
    if positive not in (None, evaluated):
        raise ConfigError(f"explanation.positive: must be {allowed}, got '{positive}'.")


def check_encoder(
    probe: FittedProbe, described: EncoderDescription, run: Path, progress: Progress
) -> None:
    """Refuse a run whose encoder did not compute the features on which a probe was fitted.

    `described` is the description of the run, `run` its folder. Warn if the probe does not record
    the encoder of its features.
    """
    n_features = described.n_features or 0
    check_probe_members(probe, described, parameter=f"{run}")
    sha256 = described.weights.sha256 or ""
    expected, _, how = (probe.encoder or "").partition(", ")
    if how.startswith("head") or "read out" in how:
        layer = how
        if how.startswith("head"):
            layer = "after the projection head (embedding.layer: head)"
        raise DataError(
            f"{run}: the probe was fitted on embeddings {layer}, and a map is that of the "
            "encoder's features. Embed with embedding.layer: encoder and without "
            "embedding.read_out, and evaluate that table."
        )
    if n_features != probe.n_features or (expected and expected != sha256):
        recorded = "one that is not recorded"
        if expected:
            recorded = f"'{expected[:12]}…'"
        raise DataError(
            f"{run}: the probe was fitted on {probe.n_features} features of the encoder "
            f"{recorded}, and this is the encoder '{sha256[:12]}…' with {n_features}. Give the run "
            "whose embeddings were evaluated."
        )
    if not expected:
        progress.warning(
            f"{run}: the evaluation does not say which encoder made its embeddings; this one is "
            "taken."
        )
    if how:
        progress.warning(f"the embeddings were made in {how}; the map is computed in float32.")

"""Map where in the brain differences in the score of an evaluation's probe come from."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from neurocontrast.commands.explained import Explained, explain_score, settings_for_measures
from neurocontrast.config import AnyConfig, as_config
from neurocontrast.data import Cohort
from neurocontrast.data.listing import read_table
from neurocontrast.data.sources import Brains, RegionalMeasures
from neurocontrast.display import as_progress
from neurocontrast.documents.encoder import EncoderDescription
from neurocontrast.documents.environment import Environment
from neurocontrast.documents.explanation import (
    EXPLANATION_FILE,
    ExplainedProbe,
    ExplanationRecord,
)
from neurocontrast.evaluation import FittedProbe, load_probe
from neurocontrast.exceptions import CheckpointError, ConfigError
from neurocontrast.explanation import LinearScore
from neurocontrast.files import atomic_folder, check_output_folder, write_json, write_table
from neurocontrast.parallel.devices import usable_accelerator
from neurocontrast.progress import Progress
from neurocontrast.provenance import describe_environment, subject_digest
from neurocontrast.runs.explaining import (
    Look,
    ScoreMeaning,
    check_encoder,
    choose_for_each,
    find_cohort,
    find_run,
    leave_out_evaluated,
    readout_of,
    settings_as_embedded,
)
from neurocontrast.runs.networks import (
    describe_networks,
    first_alike,
    load_networks,
    sources_of,
)
from neurocontrast.torch_state import in_default_torch_state
from neurocontrast.weights import folder_of

_EVALUATED = ["participant_id", "subject_id", "session", "y_true"]


@dataclass(frozen=True)
class _Subjects:
    """Scans that were explained, one a subject, with their true labels and the encoder.

    `encoder` describes the encoder whose features the explained probe reads.
    """

    cohort: Cohort
    truths: list[str]
    encoder: EncoderDescription

    @property
    def simulated(self) -> bool:
        """Whether the explained scans, or the training scans of the encoder, are simulated."""
        return self.cohort.simulated or self.encoder.simulated


@in_default_torch_state
def explain(
    evaluation: str | os.PathLike[str],
    *,
    run: str | os.PathLike[str] | None = None,
    participants: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    images_root: str | os.PathLike[str] | None = None,
    atlas: str | os.PathLike[str] | None = None,
    config: AnyConfig | None = None,
    overwrite: bool = False,
    progress: Progress | bool | None = None,
) -> Path:
    """Map where in the brain differences in the probe's score come from; return the map's folder.

    For a run of regional measures, rank the measures by their share of the differences, with 95 %
    intervals.
    For a run of several encoders (members), the mean of their scores is explained: the map, or the
    ranking, is the mean of the members' maps.

    Parameters
    ----------
    evaluation : path
        Evaluation directory with a linear probe.
    run : path, optional
        Run directory whose embeddings were evaluated, the folder of its encoder, or weights by
        name; by default the run with the recorded digest in the folders around the evaluation or in
        the working directory.
    participants : path, optional
        Table of the evaluated scans; by default the one of the recorded name and content in the
        same folders.
    out : path, optional
        Folder to write, with ``saliency.nii.gz`` (share of the differences in score between
        subjects), or ``regions.tsv`` of measures, ``saliency.tsv`` and ``explain.json``; by default
        ``explanation`` in the evaluation, where `report` looks. An encoder that joins principal
        components of the scans to the features of its network has a map, or a column, of each:
        ``saliency_network.nii.gz`` and ``saliency_components.nii.gz``.
    images_root : path, optional
        Folder that relative image paths start from; the table's own by default.
    atlas : path, optional
        For measures of cortical regions: folder with the parcellation of fsaverage5,
        ``lh.aparc.annot`` and ``rh.aparc.annot`` (or those of the measures' atlas), on which
        ``surface.png`` is drawn; by default those of FreeSurfer in ``$FREESURFER_HOME``. Without
        them there is no picture.
    config : Config, mapping or path of a YAML file, optional
        Section `explanation`; and section `data`, for the places of images and cache, and
        ``skip_unreadable``: evaluated scans that cannot be used are not explained then.
    overwrite : bool
        Whether an earlier explanation in `out` is replaced.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. With None,
        lines appear in a terminal or notebook alone, and warnings (`NeurocontrastWarning`) always.
    """
    progress = as_progress(progress)
    evaluation = Path(evaluation)
    folder = evaluation / "explanation" if out is None else Path(out)
    check_output_folder(folder, overwrite=overwrite, marker=EXPLANATION_FILE, what="an explanation")
    whole = as_config({} if config is None else config)
    settings = whole.explanation
    usable_accelerator(settings.accelerator, section="explanation")
    probe = load_probe(evaluation)
    readouts, meaning = readout_of(probe, settings.positive)
    run = find_run(evaluation, probe) if run is None else folder_of(run)
    networks = load_networks(run)
    described = describe_networks(run, networks)
    data = settings_as_embedded(whole.data, evaluation, networks[0].contract)
    sources = sources_of(networks, data, what="explain maps where in a brain an encoder looks")
    _check_atlas(atlas, sources[0])
    check_encoder(probe, described, run, progress)
    evaluated = _read_evaluated(evaluation)
    listed = _list_scans(participants, images_root, evaluation, evaluated, sources[0])
    evaluated = leave_out_evaluated(sources, listed, evaluated, progress)
    if isinstance(sources[0], RegionalMeasures):
        settings = settings_for_measures(settings, len(evaluated))
    cohorts, truths = choose_for_each(sources, listed, images_root, evaluated, probe, settings)
    looks = []
    for network, readout, source, cohort in zip(networks, readouts, sources, cohorts, strict=True):
        looks.append(Look(LinearScore(network.encoder, *readout), source, cohort))
    _make_ready(sources, cohorts, progress)
    explained = explain_score(probe, looks, settings, atlas, progress)
    subjects = _Subjects(cohorts[0], truths, described)
    _write(folder, probe, meaning, subjects, explained)
    return folder


def _check_atlas(atlas: object, source: Brains) -> None:
    """Refuse an atlas of the cortex for a run that was trained on scans."""
    if atlas is not None and not isinstance(source, RegionalMeasures):
        raise ConfigError(
            "atlas: is of regional measures, and this run was trained on scans. Leave it out."
        )


def _list_scans(
    participants: str | os.PathLike[str] | None,
    images_root: str | os.PathLike[str] | None,
    evaluation: Path,
    evaluated: pd.DataFrame,
    source: Brains,
) -> Cohort:
    """Return the cohort of scans in the table `participants`, as `source` lists the table's rows.

    `source` reads the scans of the first network of the run. If `participants` is None, the table
    is searched in the folders around `evaluation`: one that holds all scans in `evaluated`.
    """
    if participants is None:
        return find_cohort(evaluation, evaluated, source, images_root)
    return source.read_cohort(participants, images_root=images_root)


def _make_ready(sources: Sequence[Brains], cohorts: Sequence[Cohort], progress: Progress) -> None:
    """Preprocess the scans to explain, for each network of the run, into the cache of its source.

    `sources` has for each network the object that reads and preprocesses its scans, and `cohorts`
    the scans. Networks with the same source have their scans preprocessed once. Nothing is
    returned.
    """
    for number in dict.fromkeys(first_alike(sources)):
        sources[number].make_ready(cohorts[number], progress)


def _read_evaluated(evaluation: Path) -> pd.DataFrame:
    """Return the identifiers and true labels (``y_true``) in ``predictions.tsv`` of an evaluation.

    The table has one row a scan, the first of several repeats. All cells are text.
    """
    path = evaluation / "predictions.tsv"
    remedy = "Copy the evaluation again."
    evaluated = read_table(
        path, needed=_EVALUATED, error=CheckpointError, remedy=remedy, dtype=str
    )[_EVALUATED]
    return evaluated.drop_duplicates(["participant_id", "session"]).reset_index(drop=True)


def _write(
    folder: Path,
    probe: FittedProbe,
    meaning: ScoreMeaning,
    subjects: _Subjects,
    explained: Explained,
) -> None:
    """Write an explanation to `folder`: map or ranking, subjects' scores, and ``explain.json``."""
    n_of_class = None
    if probe.classes:
        n_of_class = dict(
            zip(probe.classes, map(subjects.truths.count, probe.classes), strict=True)
        )
    record = ExplanationRecord(
        format=1,
        n_subjects=len(subjects.truths),
        n_of_class=n_of_class,
        target=probe.target,
        positive=meaning.positive,
        score=meaning.score,
        simulated=subjects.simulated,
        encoder=subjects.encoder.weights.sha256,
        probe=ExplainedProbe(name=probe.name, strength=probe.strength, n_scans=probe.n_scans),
        quantity="share of the differences in score between subjects",
        environment=Environment.model_validate(describe_environment()),
    )
    record = record.with_keys(**explained.method.content())
    digests = map(subject_digest, subjects.cohort.table["subject_id"].astype(str))
    names = [digest[:12] for digest in digests]
    scores = pd.DataFrame({"subject": names, "y_true": subjects.truths, "score": explained.scores})
    with atomic_folder(folder) as new:
        explained.save(new)
        write_table(new / "saliency.tsv", scores)
        write_json(new / EXPLANATION_FILE, record.content())

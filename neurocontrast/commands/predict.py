"""Predict people by weights with probes of age, sex …, or a target by an evaluation's probe."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from neurocontrast.commands.predict_probe import apply_probe
from neurocontrast.commands.predicting import PeoplePredictions, Predictions, Request
from neurocontrast.config import AnyConfig
from neurocontrast.data.listing import AnyTable
from neurocontrast.display import as_progress
from neurocontrast.documents.document import Json
from neurocontrast.exceptions import ConfigError
from neurocontrast.progress import Progress
from neurocontrast.runs.weights_at import are_embeddings, probes_of
from neurocontrast.torch_state import in_default_torch_state
from neurocontrast.weights import folder_of


@in_default_torch_state
def predict(
    probe: str | os.PathLike[str],
    embeddings: str | os.PathLike[str] | pd.DataFrame,
    *,
    out: str | os.PathLike[str] | None = None,
    run: str | os.PathLike[str] | None = None,
    images_root: str | os.PathLike[str] | None = None,
    config: AnyConfig | None = None,
    calibrate: AnyTable | None = None,
    features: bool = False,
    overwrite: bool = False,
    on_scan: Callable[[Json], None] | None = None,
    progress: Progress | bool | None = None,
) -> Predictions | PeoplePredictions:
    """Predict people by weights with probes of age, sex …, or a target by an evaluation's probe.

    Weights are a folder with a trained encoder and, in subfolders, linear probes on its features.

    **By weights**, ``predict("measures", "freesurfer")``: measures or scans are read and embedded,
    and all probes of the weights are applied, in one pass. The table has one row a person:
    identifiers; site and age, if anybody has them; ``predicted_age``; ``predicted_sex`` and
    ``probability_sex_M``, whose name ends with the sex that the probability is of; ``outside`` and
    ``why_outside``, the reasons why a person is unlike the training people of the weights, such as
    outlying features or measures, another version of FreeSurfer, an age outside of the training
    range, or too many missing measures; ``trained_on``, ``warnings`` and ``error``. Neither site
    nor age is needed.

    **By an evaluation**, ``predict("evaluation", "embeddings.parquet")``: the evaluation's probe is
    applied to a table of embeddings.

    Scans are embedded first, as `neurocontrast.embed` does; a scan that cannot be read does not
    stop the other scans. For very many scans call `embed`, which continues after an interruption,
    and predict from the table of embeddings.

    Parameters
    ----------
    probe : str or path
        Name of weights (`neurocontrast.weights.names`), or of weights and one of their probes such
        as ``measures/age``, or the path of the folder of weights or of such a probe; or an
        evaluation directory, or its folder ``probe``. A name of weights that a run, probe or
        evaluation in the current folder has as well is refused as ambiguous.
    embeddings : path or DataFrame
        With weights of measures: tables of FreeSurfer, a folder of subjects, any table that
        `index` reads, or a DataFrame with identifiers and measures; with weights of scans: a scan
        (NIfTI, FreeSurfer), a folder of scans at any depth, or a table with one row per scan. With
        an evaluation: table written by `embed`, or a DataFrame like that, with the run whose
        embeddings the probe was fitted on. With `run`: scans as for weights. A `run` of regional
        measures takes a table or a folder of these, or the table of people to whom the measures of
        ``data.measures`` belong.
    out : path, optional
        Table to write, ending in ``.tsv``; with weights it may be left out, and the table is then
        only in the returned object. With an evaluation: identifiers, site, ``y_score`` (probability
        of the positive class, or number; of several classes ``score_<class>``), ``y_pred``,
        ``trained_on`` (subjects that the probe was fitted on), ``mahalanobis``,
        ``mahalanobis_percentile`` and ``outside``; of scans also ``warnings`` and ``error``. A
        ``.json`` file next to the table says where the predictions came from.
    run : path, optional
        Run directory whose encoder embeds the scans.
    images_root : path, optional
        Folder that relative paths in the table of scans start from.
    config : Config, mapping or path of a YAML file, optional
        Sections `embedding` and `data`, for scans. Without ``data.cache_dir`` no copy of a scan is
        kept.
    calibrate : path or DataFrame, optional
        Table with ``participant_id`` (and ``session``) and the target of some of these scans, ten
        or twenty of each new site: the bias of every site with at least five such subjects is taken
        out of its predictions (an intercept alone). ``y_score`` is then calibrated,
        ``y_score_zero_shot`` as before, and ``calibrated_on`` marks scans that are no test any
        more. With weights, the table has ages, sexes … of some of the predicted people, in columns
        with the names of the targets; where nobody has a site, all people count as one site.
    features : bool
        With weights, whether the table has the features too, as ``feature_0000`` and so on.
    overwrite : bool
        Whether an `out` that exists is replaced.
    on_scan : callable, optional
        Called with each row of the table as a dict of JSON values, after all predictions.
    progress : Progress, bool or None
        Receives progress messages; True shows them on standard error, False nothing. With None,
        lines appear in a terminal or notebook alone, and warnings (`NeurocontrastWarning`) always.

    Returns
    -------
    Predictions or PeoplePredictions
        The table's path; ``predictions.table`` reads the table. A notebook shows the numbers of
        predicted and failed scans, and the shift of each site that `calibrate` calibrated.
    """
    progress = as_progress(progress)
    probe = folder_of(probe)
    weights = _weights_at(probe, embeddings, run)
    if run is not None:
        run = folder_of(run)
    table = None
    if out is not None:
        table = Path(out)
    request = Request(embeddings, table, run, images_root, config, calibrate, features, overwrite)
    if weights is None:
        return apply_probe(probe, request, on_scan=on_scan, progress=progress)
    # The probe of an evaluation is applied to embeddings without torch.
    from neurocontrast.commands.predict_people import predict_people

    return predict_people(*weights, request, on_scan=on_scan, progress=progress)


def _weights_at(
    path: Path, embeddings: str | os.PathLike[str] | pd.DataFrame, run: object
) -> tuple[Path, list[Path]] | None:
    """Return the folder of the weights at `path` with a list of its probes' folders; or None.

    The path is a folder of weights (an encoder, and probes in subfolders), the folder of one of
    these probes, which is then listed alone, or an evaluation. None means that the probe at the
    path is to be applied alone, without the encoder of weights: always for an evaluation, and for
    one of the probes if `embeddings` is a table of embeddings, or if a `run` embeds the scans. A
    folder of weights together with a `run` raises ConfigError, since weights have an encoder of
    their own.
    """
    weights = probes_of(path)
    if weights is None:
        return None
    folder, probes = weights
    is_one = folder != path
    if is_one and (run is not None or are_embeddings(embeddings)):
        return None
    if run is not None:
        raise ConfigError(
            f"run: '{folder.name}' are weights, which have an encoder of their own. Leave it out, "
            f"or name one probe, for instance {probes[0]}."
        )
    return folder, probes

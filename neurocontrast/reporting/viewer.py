"""A page to explore an embedding: a scatter plot coloured by any column, with slices of scans."""

import base64
import io
from typing import Any

import nibabel as nib
import numpy as np
import numpy.typing as npt
import pandas as pd
from nibabel.filebasedimages import ImageFileError
from PIL import Image
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from neurocontrast.documents.embeddings import Embeddings, read_embeddings
from neurocontrast.exceptions import ConfigError
from neurocontrast.files import digest_of_file, files_near
from neurocontrast.progress import SILENT, Progress
from neurocontrast.reporting.blocks import html_templates
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.style import PALETTE, thin_rows

MAX_SLICED = 500
"""Most scans whose slices are in the page, at about 10 kB a scan."""
_HEIGHT = 120
"""Height of a slice in pixels."""
_FILE = r"^/|^[A-Za-z]:\\|\.nii(?:\.gz)?$|\.npy"
"""Pattern of file paths: a column of paths is no column to colour by."""
_IDENTIFIERS = ("participant_id", "subject_id", "session")


def find_embeddings(files: EvaluationFolder) -> Embeddings:
    """Read the evaluated embeddings from their file, which is found by name and digest.

    Both are recorded in ``evaluation.json``. Searched are the evaluation folder's parent, that
    folder's parent and the working directory, each with two levels of subfolders. ConfigError if no
    file there has the name and the digest.
    """
    made_of = files.summary.embeddings
    for path in files_near(files.folder, made_of.file or "no name"):
        if digest_of_file(path) == made_of.digest:
            return read_embeddings(path)
    raise ConfigError(
        f"map: the embeddings '{made_of.file or 'not recorded'}' that were evaluated are not near "
        f"{files.folder}, or have changed since. Put the table next to the evaluation folder, or "
        "evaluate again."
    )


def render_viewer(files: EvaluationFolder, *, progress: Progress = SILENT) -> str:
    """Return an HTML page with the evaluated embedding as a scatter plot, which loads no file.

    The page holds identifiers, columns and slices of people: it is not to be passed on.
    """
    read = find_embeddings(files)
    table = thin_rows(read.table.assign(row=np.arange(len(read.table))))
    maps = _project(read.features[table["row"].to_numpy()])
    slices = _slices(table, progress)
    template = html_templates("neurocontrast.reporting").get_template("viewer.html.j2")
    return template.render(
        title=files.target,
        simulated=files.summary.simulated,
        n=len(table),
        n_all=len(read.table),
        n_sliced=len(slices) - slices.count(None),
        max_sliced=MAX_SLICED,
        data={
            "maps": {name: np.round(points, 3).tolist() for name, points in maps.items()},
            "names": [
                " ".join(filter(None, map(str, key)))
                for key in table[["participant_id", "session"]].to_numpy()
            ],
            "columns": _columns(_with_findings(table, files)),
            "slices": slices,
            "palette": PALETTE,
            "first": files.target,
        },
    )


def _project(features: npt.NDArray[np.floating]) -> dict[str, npt.NDArray[np.float64]]:
    """Project the features of scans to two dimensions: title of the projection → points.

    Standardised features are projected on two principal components, and by UMAP if installed.
    """
    standard = StandardScaler().fit_transform(features.astype(float))
    pca = PCA(min(2, *standard.shape), random_state=0)
    points = np.zeros((len(standard), 2))
    points[:, : pca.n_components] = pca.fit_transform(standard)
    shares = ", ".join(f"{share:.0%}" for share in pca.explained_variance_ratio_)
    maps = {f"PCA ({shares} of the variance)": points}
    try:
        from umap import UMAP
    except ImportError:
        return maps
    return maps | {"UMAP": UMAP(random_state=0).fit_transform(standard)}


def _with_findings(table: pd.DataFrame, files: EvaluationFolder) -> pd.DataFrame:
    """Return the table of scans with mean predictions and percentiles of Mahalanobis distance.

    A column is added only if the evaluation's tables have its values.
    """
    for result, source, name in (
        (files.predictions, "y_score", "predicted (mean of repeats)"),
        (files.table("outlyingness"), "mahalanobis_percentile", "percentile of distance"),
    ):
        if result is not None and {"participant_id", "session", source} <= set(result):
            values = result.assign(session=result["session"].fillna("")).groupby(
                ["participant_id", "session"]
            )[source]
            table = table.join(values.mean().rename(name), on=["participant_id", "session"])
    return table


def _columns(table: pd.DataFrame) -> dict[str, list[Any]]:
    """Return the columns by which points can be coloured: name → a value for each scan.

    All columns that differ between scans, but identifiers and paths. A missing value is None.
    """
    columns = {}
    for name in table.columns.drop([*_IDENTIFIERS, "row"], errors="ignore"):
        values = table[name]
        is_file = values.dtype.kind not in "fiub" and values.astype(str).str.contains(_FILE).any()
        if values.nunique() > 1 and not is_file:
            if values.dtype.kind == "f":
                values = values.round(4).replace([np.inf, -np.inf], np.nan)
            columns[str(name)] = values.astype(object).where(values.notna(), None).tolist()
    return columns


def _slices(table: pd.DataFrame, progress: Progress) -> list[str | None]:
    """Return three slices of each scan in `table` as the data URI of a JPEG.

    None for a scan that cannot be read. Of more than `MAX_SLICED` scans, rows at equal distances
    have slices, and all others None.
    """
    paths = table.get("path", pd.Series([None] * len(table)))
    chosen = np.linspace(0, len(table) - 1, min(MAX_SLICED, len(table))).round().astype(int)
    slices: list[str | None] = [None] * len(table)
    with progress.task("Slices of scans", len(chosen), "scan") as task:
        for row in chosen:
            try:
                slices[row] = _picture(str(paths.iloc[row]))
            except (OSError, EOFError, ValueError, ImageFileError):
                slices[row] = None
            task.advance()
    return slices


def _picture(path: str) -> str:
    """Return the middle sagittal, coronal and axial slices of a scan as the data URI of a JPEG."""
    image = nib.funcs.squeeze_image(nib.as_closest_canonical(nib.load(path)))
    voxels = np.nan_to_num(np.asanyarray(image.dataobj, dtype=np.float32))
    if voxels.ndim == 4:
        voxels = voxels[..., 0]
    low, high = np.quantile(voxels[::2, ::2, ::2], (0.01, 0.995))
    steps = image.header.get_zooms()[:3]
    shown = []
    for axis in range(3):
        plane = np.flipud(np.take(voxels, voxels.shape[axis] // 2, axis=axis).T)
        across, up = np.delete(np.arange(3), axis)
        width = _HEIGHT * plane.shape[1] * steps[across] / (plane.shape[0] * steps[up])
        grey = np.clip((plane - low) / max(high - low, 1e-12) * 255, 0, 255).astype(np.uint8)
        shown.append(np.asarray(Image.fromarray(grey).resize((max(1, round(width)), _HEIGHT))))
    buffer = io.BytesIO()
    Image.fromarray(np.hstack(shown)).save(buffer, format="JPEG", quality=75)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")

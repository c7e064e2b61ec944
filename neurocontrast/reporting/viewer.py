"""A page to look into an embedding: points that are coloured by any column, named, and opened as slices of the scan."""

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
"""Scans whose slices are in the page: each adds about 10 kB."""
_HEIGHT = 120
"""Pixels of a slice."""
_FILE = r"^/|^[A-Za-z]:\\|\.nii(?:\.gz)?$|\.npy"
"""What a place of a file looks like."""
_IDENTIFIERS = ("participant_id", "subject_id", "session")


def find_embeddings(files: EvaluationFolder) -> Embeddings:
    """Return the embeddings that were evaluated, found near the evaluation by their name and digest."""
    made_of = files.summary.embeddings
    for path in files_near(files.folder, made_of.file or "no name"):
        if digest_of_file(path) == made_of.digest:
            return read_embeddings(path)
    raise ConfigError(
        f"map: the embeddings '{made_of.file or 'not recorded'}' that were evaluated are not near {files.folder}, or "
        "have changed since. Put the table next to the evaluation folder, or evaluate again."
    )


def render_viewer(files: EvaluationFolder, *, progress: Progress = SILENT) -> str:
    """Return the page, which holds identifiers, columns and slices of people, and loads nothing from the network."""
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
        n_sliced=sum(each is not None for each in slices),
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
    """Return two dimensions of standardised features: principal components, UMAP if installed."""
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
    """Add the mean prediction of each scan, and the percentile of its distance to the scans learned from."""
    for found, source, name in (
        (files.predictions, "y_score", "predicted (mean of repeats)"),
        (files.table("outlyingness"), "mahalanobis_percentile", "percentile of distance"),
    ):
        if found is not None and {"participant_id", "session", source} <= set(found):
            values = found.assign(session=found["session"].fillna("")).groupby(
                ["participant_id", "session"]
            )[source]
            table = table.join(values.mean().rename(name), on=["participant_id", "session"])
    return table


def _columns(table: pd.DataFrame) -> dict[str, list[Any]]:
    """Return the columns that differ between people, None for a missing value, without identifiers and files."""
    columns = {}
    for name in table.columns.drop([*_IDENTIFIERS, "row"], errors="ignore"):
        values = table[name]
        is_file = values.dtype.kind not in "fiub" and values.astype(str).str.contains(_FILE).any()
        if values.nunique() > 1 and not is_file:
            known = (
                values.round(4).replace([np.inf, -np.inf], np.nan)
                if values.dtype.kind == "f"
                else values
            )
            columns[str(name)] = known.astype(object).where(known.notna(), None).tolist()
    return columns


def _slices(table: pd.DataFrame, progress: Progress) -> list[str | None]:
    """Return three slices of each scan as an address that holds a JPEG.

    Return None for a scan that cannot be read.
    """
    paths = table.get("path", pd.Series([None] * len(table)))
    chosen = np.linspace(0, len(table) - 1, min(MAX_SLICED, len(table))).round().astype(int)
    found: list[str | None] = [None] * len(table)
    with progress.task("Slices of scans", len(chosen), "scan") as task:
        for row in chosen:
            try:
                found[row] = _picture(str(paths.iloc[row]))
            except (OSError, EOFError, ValueError, ImageFileError):
                found[row] = None
            task.advance()
    return found


def _picture(path: str) -> str:
    """Return the middle sagittal, coronal and axial slice of a scan, seen from its left, from behind and from above."""
    image = nib.funcs.squeeze_image(nib.as_closest_canonical(nib.load(path)))
    voxels = np.nan_to_num(np.asanyarray(image.dataobj, dtype=np.float32))
    if voxels.ndim == 4:
        voxels = voxels[..., 0]
    low, high = np.quantile(voxels[::2, ::2, ::2], (0.01, 0.995))
    steps = image.header.get_zooms()[:3]
    shown = []
    for axis in range(3):
        plane = np.flipud(np.take(voxels, voxels.shape[axis] // 2, axis=axis).T)
        across, up = (each for each in range(3) if each != axis)
        width = _HEIGHT * plane.shape[1] * steps[across] / (plane.shape[0] * steps[up])
        grey = np.clip((plane - low) / max(high - low, 1e-12) * 255, 0, 255).astype(np.uint8)
        shown.append(np.asarray(Image.fromarray(grey).resize((max(1, round(width)), _HEIGHT))))
    buffer = io.BytesIO()
    Image.fromarray(np.hstack(shown)).save(buffer, format="JPEG", quality=75)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")

"""How real sites differ beside how far views of one site's scans stray: do views reach the other sites?

Nine figures that need no labels are taken of each scan, and of views of the home site's scans by
`AugmentSettings.sites()`. A site is in reach in a figure where its mean is within about two
deviations of the views.

    python benchmarks/site_coverage.py --participants participants.tsv --home london   #
    skull-stripped; half a minute
"""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy import ndimage

from neurocontrast.data import read_cohort
from neurocontrast.transforms import AugmentSettings, Preprocessing, brain_views, load_volume

N_VIEWS = 12


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--participants", type=Path, required=True)
    parser.add_argument("--home", required=True, help="the site whose scans are augmented")
    parser.add_argument("--spacing-mm", type=float, default=6.0)
    parser.add_argument("--shape", type=int, nargs=3, default=(32, 40, 32))
    parser.add_argument("--normalise", default="zscore")
    parser.add_argument("--n-scans", type=int, default=14, help="of each site, at most")
    options = parser.parse_args()
    torch.set_num_threads(1)
    scans = read_scans(options)
    own = pd.DataFrame(
        [{"site": site, **figures(x)} for site, found in scans.items() for x in found]
    )
    views = [figures_of_views(x, 100 * number) for number, x in enumerate(scans[options.home])]
    print(
        f"{datetime.date.today()}, {options.spacing_mm:g} mm, {options.normalise}, up to {options.n_scans} scans a site"
    )
    print(
        table(
            own.groupby("site"),
            pd.concat(views),
            pd.concat([each.std() for each in views], axis=1),
            options.home,
        )
    )


def read_scans(options: argparse.Namespace) -> dict[str, list[np.ndarray]]:
    """Return volumes by site."""
    preprocessing = Preprocessing(
        spacing_mm=options.spacing_mm, shape=tuple(options.shape), normalise=options.normalise
    )
    table = read_cohort(options.participants).table
    return {
        str(site): [
            load_volume(path, preprocessing)[0] for path in of_site["path"].head(options.n_scans)
        ]
        for site, of_site in table.groupby("site")
    }


def figures(x: np.ndarray) -> dict[str, float]:
    """Return what can be seen of a site without knowing whose scan it is; intensities from 0 to the 99th percentile."""
    background = np.median(x[tuple(slice(None, None, n - 1) for n in x.shape)])
    brain = x != background
    low, high = min(x.min(), background), np.quantile(x[brain], 0.99)
    signal = np.where(brain, (x - low) / (high - low), 0.0)
    second = ndimage.binary_erosion(brain)
    deep = ndimage.binary_erosion(second)
    middle = [np.mean(places) for places in np.nonzero(deep)]
    behind, below = (np.indices(x.shape)[axis] <= middle[axis] for axis in (1, 2))
    return {
        "brain's share of the box": brain.mean(),
        "outermost voxels": signal[brain & ~second].mean(),
        "those below them": signal[second & ~deep].mean(),
        "deep, 10 %": np.quantile(signal[deep], 0.1),
        "deep, median": np.median(signal[deep]),
        "deep, 75 %": np.quantile(signal[deep], 0.75),
        "sharpness (mean size of Laplacian)": np.abs(ndimage.laplace(signal))[deep].mean(),
        "front − back": signal[deep & ~behind].mean() - signal[deep & behind].mean(),
        "top − bottom": signal[deep & ~below].mean() - signal[deep & below].mean(),
    }


def figures_of_views(x: np.ndarray, number: int) -> pd.DataFrame:
    views = brain_views(AugmentSettings.sites().model_copy(update={"cutout": None}))
    sample = {"image": torch.from_numpy(x)[None]}
    made = [
        views.set_random_state(seed=number + i)(sample)["image"][0].numpy() for i in range(N_VIEWS)
    ]
    return pd.DataFrame([figures(view) for view in made])


def table(own, views: pd.DataFrame, spread: pd.DataFrame, home: str) -> str:
    means, within = own.mean(), own.std().mean()
    sites = [home, *(site for site in means.index if site != home)]
    lines = [
        "| | "
        + " | ".join(sites)
        + " | within a site, SD | views of "
        + home
        + ": mean | SD around a scan |",
        "|" + "---|" * (len(sites) + 4),
    ]
    for name in means.columns:
        cells = [f"{means.loc[site, name]:.3f}" for site in sites]
        cells += [
            f"{within[name]:.3f}",
            f"{views[name].mean():.3f}",
            f"{spread.loc[name].mean():.3f}",
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

"""What correcting a new site does to age: predictions at a site whose people are 25 years older than at the others.

Simulated features, so that the truth is known: 40 move with age, each site has a shift and a spread
of its own. Ridge regression is fitted on four sites and tested at the fifth.

    python -m benchmarks.harmonisation
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from neurocontrast.evaluation import ComBat

N_PEOPLE, N_FEATURES, OLDER, N_COHORTS = 150, 40, 25.0, 20
FEATURES = [f"feature_{place}" for place in range(N_FEATURES)]


def simulate(seed: int, *, shift: float) -> pd.DataFrame:
    """Return five sites of equal size, the people of the last one `OLDER` years older."""
    generator = np.random.default_rng(seed)
    sites = np.repeat(np.arange(5), N_PEOPLE)
    age = generator.uniform(20, 60, len(sites)) + OLDER * (sites == 4)
    shifts, spreads = (
        shift * generator.normal(size=(5, N_FEATURES)),
        np.exp(0.2 * generator.normal(size=(5, 1))),
    )
    x = np.outer(age / 15, generator.normal(size=N_FEATURES)) + shifts[sites]
    x += spreads[sites] * 1.5 * generator.normal(size=x.shape)
    return pd.DataFrame(x, columns=FEATURES).assign(
        site=[f"site-{site}" for site in sites], age=age
    )


def corrected(table: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the features of all scans under each correction."""
    x = table.drop(columns="age")
    return {
        "as they are": table[FEATURES].to_numpy(),
        "z-score within each site": x.groupby("site").transform(
            lambda part: (part - part.mean()) / part.std()
        ),
        "ComBat of all sites, without age": ComBat("site").fit_transform(x),
        "ComBat of all sites, age preserved": ComBat("site", preserve=["age"]).fit_transform(table),
    }


def main() -> None:
    """Print the mean over cohorts of bias and mean absolute error at the new site."""
    rows = []
    for shift in (0.0, 10.0):
        for seed in range(N_COHORTS):
            table = simulate(seed, shift=shift)
            age, new = table["age"].to_numpy(), (table["site"] == "site-4").to_numpy()
            for way, x in corrected(table).items():
                x = np.asarray(x)
                probe = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-1, 6, 15))).fit(
                    x[~new], age[~new]
                )
                error = probe.predict(x[new]) - age[new]
                rows.append(
                    {"shift": shift, "way": way, "bias": error.mean(), "mae": np.abs(error).mean()}
                )
    means = pd.DataFrame(rows).groupby(["shift", "way"], sort=False).mean().unstack("shift")
    print(means.round(1).to_string())


if __name__ == "__main__":
    main()

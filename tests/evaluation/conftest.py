"""Synthetic embeddings with known effects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest


@dataclass
class Synthetic:
    table: pd.DataFrame
    features: np.ndarray


@pytest.fixture(scope="session")
def make_cohort() -> Callable[..., Synthetic]:
    """Build scans whose features hold the stated shifts by diagnosis, age and site."""

    def make(
        n: int = 120,
        *,
        n_features: int = 20,
        n_sites: int = 3,
        n_sessions: int = 1,
        diagnosis: float = 1.0,
        age: float = 1.0,
        site: float = 0.0,
        classes: tuple[str, ...] = ("control", "patient"),
        seed: int = 0,
    ) -> Synthetic:
        generator = np.random.default_rng(seed)
        codes = generator.integers(len(classes), size=n)
        places = generator.integers(n_sites, size=n)
        ages = generator.uniform(20, 80, size=n)
        directions = generator.normal(size=(2 + len(classes), n_features)) / np.sqrt(n_features)
        by_site = generator.normal(size=(n_sites, n_features))
        subjects = [f"sub-{row:04d}" for row in range(n)]
        means = diagnosis * 3 * directions[2 + codes] + age * np.outer((ages - 50) / 10, directions[0])
        means = means + site * by_site[places]
        table = pd.DataFrame(
            {
                "participant_id": subjects,
                "subject_id": subjects,
                "session": "",
                "path": [f"{subject}.nii.gz" for subject in subjects],
                "age": ages,
                "sex": generator.choice(["F", "M"], size=n),
                "site": [f"site-{place}" for place in places],
                "diagnosis": [classes[code] for code in codes],
            }
        )
        repeated = [table.assign(session=str(session + 1) if n_sessions > 1 else "") for session in range(n_sessions)]
        features = [means + generator.normal(size=means.shape) for _ in range(n_sessions)]
        return Synthetic(pd.concat(repeated, ignore_index=True), np.concatenate(features))

    return make

"""Every random draw, with every key that it is said to have: one key changed changes it, and nothing else does."""

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from monai.transforms import Compose, RandFlipd
from sklearn.tree import DecisionTreeRegressor

from neurocontrast.data.cohort import split_by_subject
from neurocontrast.data.simulation import SimulationSettings
from neurocontrast.data.simulation.people import draw_person, draw_scanner, draw_sites
from neurocontrast.encoders import EncoderSettings, build_encoder, build_model
from neurocontrast.evaluation.measure.learning import draw_of_split
from neurocontrast.evaluation.measure.significance import permuted_labels
from neurocontrast.evaluation.measure.uncertainty import resample_counts
from neurocontrast.evaluation.plan.plan import split_seed
from neurocontrast.evaluation.probes.estimators import fit_own
from neurocontrast.evaluation.rows import draw_subjects
from neurocontrast.evaluation.splits import SiteStratifiedGroupKFold, Split
from neurocontrast.evaluation.splits.inner import inner_folds
from neurocontrast.evaluation.target import Target
from neurocontrast.natural.preparing import draw_backgrounds, stratified_order
from neurocontrast.training.position import Position
from neurocontrast.training.sampling import Sampler
from neurocontrast.training.steps import drawing
from neurocontrast.transforms import MeasureAugmentSettings, RandMeasureViewd, RandNoised, TwoViews
from neurocontrast.transforms.augment import MeasureCorruption, MeasureNoise, MeasureSiteShift

N = 40
ROWS = np.arange(N)
SUBJECTS = np.array([f"sub-{row:02d}" for row in ROWS], dtype=object)
SITES = np.array([f"site-{row % 2}" for row in ROWS], dtype=object)
DIAGNOSIS = Target("diagnosis", "binary", (ROWS // 2) % 2, ("control", "patient"), "patient")
AGE = Target("age", "continuous", 20 + ROWS.astype(float))
TABLE = pd.DataFrame(
    {
        "participant_id": SUBJECTS,
        "subject_id": SUBJECTS,
        "session": "",
        "site": SITES,
    }
)
Draw = Callable[..., Any]


def dropout(seed: int, epoch: int, batch: int, part: int, rank: int) -> Any:
    sampler = SimpleNamespace(occasion=lambda epoch, batch: epoch)
    fabric = SimpleNamespace(device=torch.device("cpu"), global_rank=rank)
    session = SimpleNamespace(seed=seed, fabric=fabric, sampler=sampler)
    with drawing(session, Position(epoch=epoch, batch=batch), part):
        return torch.rand(8).tolist()


def volume_view(seed: int, epoch: int, name: str, view: int) -> Any:
    transform = Compose([RandNoised("image", 1.0, sigma=(0.1, 0.2)), RandFlipd("image", 0.5)])
    views = TwoViews(transform, seed=seed)
    image = torch.linspace(0, 1, 4**3).reshape(1, 1, 4, 4, 4)
    return views.view(image, [name], epoch=epoch, view=view).tolist()


def second_view(seed: int, epoch: int, name: str) -> Any:
    views = TwoViews(Compose([RandNoised("image", 1.0, sigma=(0.1, 0.2))]), seed=seed)
    return views(torch.zeros(1, 1, 4, 4, 4), [name], epoch=epoch)[1].tolist()


def view_of_measures(part: dict[str, Any]) -> Draw:
    def draw(seed: int, epoch: int, name: str, view: int) -> Any:
        settings = MeasureAugmentSettings(
            **{"corruption": None, "site_shift": None, "noise": None, **part}
        )
        learned = np.random.default_rng(0).normal(size=(30, 50))
        transform = RandMeasureViewd("image", settings, learned=learned)
        views = TwoViews(transform, seed=seed)
        return views.view(torch.ones(1, 50, 1), [name], epoch=epoch, view=view).tolist()

    return draw


def shuffled(seed: int, epoch: int) -> Any:
    return Sampler(ROWS.tolist(), 8, seed).batches(epoch)


def grouped(seed: int, epoch: int) -> Any:
    groups = [ROWS[site == SITES].tolist() for site in np.unique(SITES)]
    return Sampler(ROWS.tolist(), 8, seed, groups=groups).batches(epoch)


def balanced(seed: int, epoch: int) -> Any:
    strata = [[ROWS[:10].tolist(), ROWS[10:20].tolist()], [ROWS[20:].tolist()]]
    return Sampler(ROWS.tolist(), 8, seed, strata).batches(epoch)


def occasion_of_balanced(epoch: int, batch: int) -> int:
    return Sampler(ROWS.tolist(), 8, 0, [[ROWS.tolist()]]).occasion(epoch, batch)


def folds(target: Target) -> Draw:
    def draw(seed: int, repeat: int) -> Any:
        splitter = SiteStratifiedGroupKFold(5, n_repeats=3, random_state=seed)
        splits = list(splitter.split(ROWS, target.values, groups=SUBJECTS, sites=SITES))
        return [test.tolist() for _, test in splits[5 * repeat : 5 * repeat + 5]]

    return draw


def inner(seed: int) -> Any:
    pairs = inner_folds(AGE, ROWS, SUBJECTS, n_folds=5, seed=seed)
    return [test.tolist() for _, test in pairs]


def bootstrap(seed: int) -> Any:
    return next(iter(resample_counts(SUBJECTS, n_bootstraps=2, seed=seed))).tolist()


def permutation(seed: int, number: int) -> Any:
    labels = permuted_labels(AGE, SITES, SUBJECTS, n_permutations=3, seed=seed)
    return labels[:, number].tolist()


def probe(seed: int, repeat: int, fold: int) -> int:
    return split_seed(seed, Split(repeat, fold, ROWS[:30], ROWS[30:]))


def learning_draw(seed: int, repeat: int, fold: int, draw: int) -> Any:
    split = Split(repeat, fold, ROWS[:30], ROWS[30:])
    return draw_of_split(TABLE, DIAGNOSIS, split, draw, seed).tolist()


def own_estimator(seed: int) -> Any:
    fitted = fit_own(
        DecisionTreeRegressor(splitter="random"),
        lambda rows, test: (ROWS[rows, None].astype(float), ROWS[test, None].astype(float)),
        ROWS[:30],
        ROWS[30:],
        AGE.values,
        subjects=SUBJECTS,
        seed=seed,
    )
    return fitted.estimator.tree_.threshold.tolist()


def scans_of_confounds(seed: int) -> Any:
    return draw_subjects(SUBJECTS, seed=seed, n_scans=10)[0].tolist()


def simulated_person(seed: int, index: int) -> Any:
    person = draw_person(SimulationSettings(n_subjects=10, n_sites=3, seed=seed), index)
    return [person.age, person.brain_age_gap, person.log_size, person.ventricle_gap]


def simulated_scanner(scanner_seed: int, site: int) -> Any:
    settings = SimulationSettings(n_subjects=10, n_sites=3, site_seed=scanner_seed)
    return dataclasses.astuple(draw_scanner(settings, site))[0]


def simulated_site(scanner_seed: int, site: int) -> Any:
    settings = SimulationSettings(n_subjects=10, n_sites=3, site_seed=scanner_seed)
    return draw_sites(settings)[site].age_shift_years


def encoder_weights(seed: int) -> Any:
    return next(build_encoder(EncoderSettings(name="lenet"), seed=seed).parameters()).tolist()


def head_weights(seed: int) -> Any:
    model = build_model(EncoderSettings(name="lenet", projection=(4,)), seed=seed)
    return next(model.head.parameters()).tolist()


def validation_people(seed: int) -> Any:
    table = TABLE.assign(site="one")
    cohort = SimpleNamespace(table=table, source=SimpleNamespace(name="people.tsv"))
    cohort = type("Cohort", (), {"__len__": lambda _: N, **vars(cohort)})()
    return split_by_subject(cohort, fraction=0.25, seed=seed)[1].tolist()


def background(seed: int, name: str) -> Any:
    return draw_backgrounds([name], sd=20.0, seed=seed).tolist()


def order_of_images(seed: int, prefix: str) -> Any:
    names = [f"{prefix}{row}" for row in ROWS]
    return stratified_order(names, ["one"] * N, seed=seed).tolist()


DRAWS: dict[str, tuple[Draw, dict[str, tuple[Any, Any]]]] = {
    "dropout": (dropout, dict.fromkeys(("seed", "epoch", "batch", "part", "rank"), (0, 1))),
    "view": (
        volume_view,
        {"seed": (0, 1), "epoch": (0, 1), "name": ("sub-1", "sub-2"), "view": (0, 1)},
    ),
    "second view": (
        second_view,
        {"seed": (0, 1), "epoch": (0, 1), "name": ("sub-1", "sub-2")},
    ),
    **{
        f"view of measures: {name}": (
            view_of_measures({name: part}),
            {"seed": (0, 1), "epoch": (0, 1), "name": ("sub-1", "sub-2"), "view": (0, 1)},
        )
        for name, part in {
            "corruption": MeasureCorruption(fraction=0.5),
            "site_shift": MeasureSiteShift(probability=1.0),
            "noise": MeasureNoise(sd=1.0),
        }.items()
    },
    "shuffled batches": (shuffled, {"seed": (0, 1), "epoch": (0, 1)}),
    "batches of one group": (grouped, {"seed": (0, 1), "epoch": (0, 1)}),
    "balanced batches": (balanced, {"seed": (0, 1), "epoch": (0, 1)}),
    "occasion": (occasion_of_balanced, {"epoch": (0, 1), "batch": (0, 1)}),
    "folds of classes": (folds(DIAGNOSIS), {"seed": (0, 1), "repeat": (0, 1)}),
    "folds of numbers": (folds(AGE), {"seed": (0, 1), "repeat": (0, 1)}),
    "inner folds": (inner, {"seed": (0, 1)}),
    "bootstrap": (bootstrap, {"seed": (0, 1)}),
    "permutation": (permutation, {"seed": (0, 1), "number": (0, 1)}),
    "probe": (probe, {"seed": (0, 1), "repeat": (0, 1), "fold": (0, 1)}),
    "learning curve": (
        learning_draw,
        {"seed": (0, 1), "repeat": (0, 1), "fold": (0, 1), "draw": (0, 1)},
    ),
    "own estimator": (own_estimator, {"seed": (0, 1)}),
    "scans of confounds": (scans_of_confounds, {"seed": (0, 1)}),
    "simulated person": (simulated_person, {"seed": (0, 1), "index": (0, 1)}),
    "simulated scanner": (simulated_scanner, {"scanner_seed": (0, 1), "site": (0, 1)}),
    "simulated site": (simulated_site, {"scanner_seed": (0, 1), "site": (0, 1)}),
    "encoder weights": (encoder_weights, {"seed": (0, 1)}),
    "head weights": (head_weights, {"seed": (0, 1)}),
    "people of validation": (validation_people, {"seed": (0, 1)}),
    "background": (background, {"seed": (0, 1), "name": ("a", "b")}),
    "order of images": (order_of_images, {"seed": (0, 1), "prefix": ("a", "b")}),
}
CASES = [(name, key) for name, (_, keys) in DRAWS.items() for key in keys]


@pytest.mark.parametrize(("name", "key"), CASES)
def test_each_key_changes_the_draw(name, key):
    draw, keys = DRAWS[name]
    first = {key: values[0] for key, values in keys.items()}
    assert draw(**first) != draw(**first | {key: keys[key][1]})


@pytest.mark.parametrize("name", DRAWS)
def test_the_same_keys_give_the_same_draw_whatever_the_global_state(name):
    draw, keys = DRAWS[name]
    first = {key: values[0] for key, values in keys.items()}
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002 - the state that nothing may read
    once = draw(**first)
    torch.manual_seed(2)
    np.random.seed(2)  # noqa: NPY002
    assert draw(**first) == once


def test_no_two_draws_of_one_thing_are_alike():
    """Keys that are merged, such as epoch + batch, meet: all combinations of three values are tried."""
    places = [(epoch, batch, part) for epoch in range(3) for batch in range(3) for part in range(3)]
    drawn = {tuple(dropout(0, *place, rank)) for place in places for rank in range(3)}
    assert len(drawn) == 3**4
    occasions = {occasion_of_balanced(epoch, batch) for epoch in range(3) for batch in range(5)}
    assert len(occasions) == 15
    seeds = {probe(0, repeat, fold) for repeat in range(5) for fold in range(5)}
    assert len(seeds) == 25
    views = {
        str(volume_view(0, epoch, name, view))
        for epoch in range(3)
        for name in ("sub-1", "sub-2", "sub-11")
        for view in (0, 1)
    }
    assert len(views) == 18

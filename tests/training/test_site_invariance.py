"""The point of positives across sites: features from which the site is told less well, and age as well as before."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import balanced_accuracy_score, r2_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tiny import views

from neurocontrast import losses
from neurocontrast.encoders import EncoderSettings, build_model
from neurocontrast.kernels import Categorical, Different, Gaussian
from neurocontrast.training import TrainingData, TrainingSettings, fit

N_TRAINING, N_NEW = (92, 14, 72), 60
ALIKE = Gaussian("age", sigma=5.0) * Categorical("sex")


class Volumes:
    def __init__(self, volumes):
        self.volumes = volumes

    def __len__(self):
        return len(self.volumes)

    def __getitem__(self, index):
        return {"image": self.volumes[index], "index": index}


def cohort(seed):
    """Every voxel is shifted by the site's pattern; training scans first, then new ones."""
    generator = np.random.default_rng(seed)
    patterns = generator.standard_normal((5, 1, 8, 8, 8))
    site = np.concatenate([np.repeat(range(3), N_TRAINING), np.repeat(range(3), N_NEW)])
    age, sex = generator.uniform(20, 80, len(site)), generator.integers(0, 2, len(site))
    effects = np.stack([0.5 * (age - 50) / 17, 0.5 * (sex - 0.5)], axis=1)
    volumes = np.tensordot(effects, patterns[:2], 1) + patterns[2 + site]
    volumes += generator.standard_normal(volumes.shape)
    return torch.tensor(volumes, dtype=torch.float32), age, sex, site


def site_and_age(folder, objective, sampling, seed, sizes=()):
    """Return the site's balanced accuracy (chance: 1/3) and the R² of age, from features of new scans."""
    volumes, age, sex, site = cohort(seed)
    n = sum(N_TRAINING)
    data = TrainingData(
        images=Volumes(volumes),
        names=[f"sub-{row:03d}" for row in range(len(volumes))],
        metadata={"age": torch.tensor(age).float(), "sex": torch.tensor(sex), "site": torch.tensor(site)},
        training_rows=list(range(n)),
        traits={"age": age, "sex": sex.astype(str).astype(object), "site": site.astype(str).astype(object)},
    )
    model = build_model(EncoderSettings(name="lenet", projection=sizes), seed=seed)
    chosen = {"epochs": 40, "batch_size": 32, "learning_rate": 1e-3, "schedule": "constant", "accelerator": "cpu"}
    settings = TrainingSettings(**chosen, sampling=sampling, checkpoint_minutes=0)
    fit(model, objective, views, data, settings=settings, seed=seed, folder=folder)
    with torch.no_grad():
        features = model.eval().encoder(volumes).numpy()
    classify = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, class_weight="balanced", max_iter=2000))
    told = cross_val_predict(classify, features[n:], site[n:], cv=StratifiedKFold(5, shuffle=True, random_state=0))
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-1, 5, 13))).fit(features[:n], age[:n])
    return balanced_accuracy_score(site[n:], told), r2_score(age[n:], ridge.predict(features[n:]))


@pytest.mark.slow
def test_the_site_fades_and_age_stays(tmp_path):
    """Against y-Aware as it is by default, and against y-Aware on the features: both parts of the recipe matter."""
    across = losses.YAwareInfoNCE(ALIKE * Different("site"), negatives=Categorical("site"))
    plain = losses.YAwareInfoNCE(ALIKE)
    found = {
        name: np.mean([site_and_age(tmp_path / f"{name}-{seed}", *given, seed=seed) for seed in (0, 1)], axis=0)
        for name, given in {
            "plain": (plain, "shuffle"),
            "across": (across, "metadata-balanced"),
        }.items()
    }
    behind_head = site_and_age(tmp_path / "head", plain, "shuffle", seed=0, sizes=(32, 16))
    (plain_site, plain_age), (across_site, across_age) = found["plain"], found["across"]
    assert behind_head[0] > 0.8
    assert across_site < 0.6
    assert across_site < plain_site - 0.03
    assert across_age > max(plain_age, behind_head[1]) - 0.05
    assert across_age > 0.8

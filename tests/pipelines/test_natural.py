"""The workflow of the papers' experiments: checked before any job, and from digits to a table and a comparison."""

import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from tests.pipelines.snakemake_runs import assert_finished, link_repository, planned, run_snakemake


@pytest.fixture
def repository(tmp_path):
    return link_repository(tmp_path)


def _snakemake(folder, *config, flags=()):
    return run_snakemake(folder, "natural.smk", *config, flags=flags)


def test_a_dry_run_plans_every_variant_seed_and_layer(repository):
    (repository / "cifar10.tar.xz").touch()
    done = _snakemake(repository, "experiment=sincere", "seeds=[3,4]", "source=cifar10.tar.xz", flags=["--dry-run"])
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-2000:]
    rules = ("images", "pretrain", "embed", "evaluate", "probe", "results", "compare")
    assert [planned(said)[name] for name in rules] == [1, 6, 12, 6, 6, 1, 1]
    assert "embedding.layer=head" in said
    assert "--resume" in said
    assert not (repository / "results").exists()


def test_a_run_with_milestones_stops_at_each_and_goes_on(repository):
    given = ["experiment=linear", "dataset=digits", "seeds=[0]", "variants=[simclr]", "milestones=[2,3]"]
    done = _snakemake(repository, *given, flags=["--dry-run"])
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-2000:]
    counts = planned(said)
    assert (counts["pretrain_until"], counts["classify"], counts["embed"]) == (2, 2, 1)
    assert "pretrain" not in counts
    assert said.index("training.epochs=2") < said.index("training.epochs=3")


def test_a_wrong_key_stops_the_workflow_before_any_job(repository):
    done = _snakemake(repository, "experiment=linear", "sede=[1]", flags=["--dry-run"])
    assert done.returncode != 0
    assert "sede" in done.stdout + done.stderr


@pytest.mark.slow
def test_from_digits_to_a_table_with_simulated_attributes(repository):
    classes = {f"digit {digit}": [int(digit in (0, 6, 8, 9)), int(digit in (1, 4, 7))] for digit in range(10)}
    supcon = {"objective": {"loss": "supcon", "label": "cluster_2"}}
    content = {
        "title": "Tiny", "question": "Does it run?", "recipe": "neurocontrast/recipes/natural/fair_cclk_small.yaml",
        "images": {"clusters": {"columns": ["attr_*"], "n_clusters": [2, 3]},
                   "n_train": 200, "n_validation": 60, "n_test": 60},
        "annotation": {"columns": ["attr_round", "attr_line"], "flip": 0.1, "classes": classes},
        "variants": {"infonce": {"label": "InfoNCE", "settings": {"objective": {"loss": "infonce"}}},
                     "clusters": {"label": "Clusters", "settings": supcon}},
        "reference": "infonce", "seeds": [0], "measures": ["accuracy", "sensitive_r2"],
        "settings": {"training.epochs": 1, "evaluation.n_bootstraps": 20, "evaluation.C": [1.0]},
        "figures": ["variants"],
    }  # fmt: skip
    (repository / "tiny.yaml").write_text(json.dumps(content))
    done, folder = _snakemake(repository, "file=tiny.yaml"), repository / "results" / "tiny"
    assert_finished(done, folder)
    table = pd.read_csv(folder / "results.tsv", sep="\t")
    assert table.groupby("variant")["measure"].nunique().to_dict() == {"clusters": 2, "infonce": 2}
    assert table["mean"].notna().all()
    assert "# Tiny" in (folder / "results.md").read_text()
    assert (folder / "figures" / "variants_sensitive_r2.svg").is_file()
    assert "<html" in (folder / "comparison" / "comparison.html").read_text()
    attributes = pd.read_csv(folder / "attributes.tsv", sep="\t")
    assert len(attributes) == 1797, "of all images, whichever are kept"
    assert "200 train, 60 validation, 60 test" in (folder / "results.md").read_text()
    again = _snakemake(repository, "file=tiny.yaml", flags=["--dry-run"])
    assert "Nothing to be done" in again.stdout + again.stderr


@pytest.mark.slow
def test_from_a_folder_of_pictures_and_features_of_another_network(repository):
    rng, rows = np.random.default_rng(0), []
    for part, n in (("train", 24), ("test", 8)):
        for number in range(n):
            file = f"{part}/{'cats' if number % 2 else 'dogs'}/{number}.png"
            (repository / "pictures" / file).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (40, 36, 3), np.uint8)).save(repository / "pictures" / file)
            rows.append([file, *rng.normal(size=4).round(3)])
    pd.DataFrame(rows, columns=["file", *(f"clip_{k}" for k in range(4))]).to_csv(repository / "clip.csv", index=False)
    images = "{attributes: clip.csv, attributes_key: file, size: 32, n_train: 16, n_validation: 4, n_test: 8}"
    given = images.replace("8}", "8, clusters: {columns: [clip_*], n_clusters: [2]}}")
    settings = "{training.epochs: 1, training.batch_size: 8, data.vectors: {attributes: [clip_*]}, evaluation.C: [1.0]}"
    done = _snakemake(
        repository, "experiment=imagenet", "size=small", "source=pictures", f"images={given}", "seeds=[0]",
        "variants=[rbf,hard_negative_cclk]", f"settings={settings}",
    )  # fmt: skip
    logs = "\n".join(f"{log}:\n{log.read_text()[-1500:]}" for log in repository.glob("results/*/logs/*.log"))
    assert done.returncode == 0, done.stderr[-3000:] + logs
    table = pd.read_csv(repository / "results" / "imagenet_small" / "results.tsv", sep="\t")
    assert set(table["variant"]) == {"infonce", "rbf", "hard_negative_cclk"}
    assert table["mean"].notna().all()

"""The workflow of the papers' experiments: checked before any job, and from digits to a table and a comparison."""

import json

import pandas as pd
import pytest

from tests.pipelines.snakemake_runs import assert_finished, dry_run, link_repository, run_snakemake


def test_a_dry_run_plans_every_variant_seed_and_layer(tmp_path):
    repository = link_repository(tmp_path)
    (repository / "cifar10.tar.xz").touch()
    given = ["experiment=sincere", "seeds=[3,4]", "source=cifar10.tar.xz"]
    said, planned = dry_run(repository, "natural.smk", *given)
    rules = ("images", "pretrain", "embed", "evaluate", "probe", "results", "compare")
    assert [planned[name] for name in rules] == [1, 6, 12, 6, 6, 1, 1]
    assert "embedding.layer=head" in said
    assert "--resume" in said


def test_a_run_with_milestones_stops_at_each_and_goes_on(tmp_path):
    given = ["experiment=linear", "dataset=digits", "seeds=[0]", "variants=[simclr]", "milestones=[2,3]"]
    said, counts = dry_run(link_repository(tmp_path), "natural.smk", *given)
    assert (counts["pretrain_until"], counts["classify"], counts["embed"]) == (2, 2, 1)
    assert "pretrain" not in counts
    assert said.index("training.epochs=2") < said.index("training.epochs=3")


@pytest.mark.slow
def test_from_digits_to_a_table_with_simulated_attributes(tmp_path):
    repository = link_repository(tmp_path)
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
    done, folder = run_snakemake(repository, "natural.smk", "file=tiny.yaml"), repository / "results" / "tiny"
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
    assert "Nothing to be done" in dry_run(repository, "natural.smk", "file=tiny.yaml")[0]

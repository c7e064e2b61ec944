import neurocontrast
from neurocontrast.cli import run as run_cli
from neurocontrast.config import load_config
from neurocontrast.progress import SILENT


class Listening(type(SILENT)):
    def __init__(self):
        self.warned = []

    def warning(self, text):
        self.warned.append(text)


def test_a_probe_without_scans_to_score_it_on_is_told_and_the_run_is_made_longer_by_one_key(tmp_path):
    table = neurocontrast.simulate(tmp_path / "cohort", n_subjects=6, n_sites=1, spacing_mm=12.0)
    config = {
        "data": {"participants": str(table), "cache_dir": str(tmp_path / "cache"), "spacing_mm": 12, "val_fraction": 0},
        "encoder": {"name": "lenet", "projection": [4]},
        "training": {"epochs": 1, "batch_size": 4, "probe_every": 1, "accelerator": "cpu"},
    }
    config["data"]["shape"] = [16, 16, 16]
    progress = Listening()
    neurocontrast.pretrain(config, out=tmp_path / "run", progress=progress)
    assert [text for text in progress.warned if "no probe is fitted" in text]
    # Without --config, a run that is resumed has its own, also below --set.
    assert run_cli(["pretrain", "--out", str(tmp_path / "run"), "--resume", "--set", "training.epochs=2", "-q"]) == 0
    assert load_config(tmp_path / "run" / "config.yaml").training.epochs == 2

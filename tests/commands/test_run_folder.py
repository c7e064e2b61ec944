from neurocontrast.runs.folder import is_finished, read_metrics


def test_metrics_are_numbers_or_none(tmp_path):
    (tmp_path / "metrics.csv").write_text("epoch,val_loss,probe_age_r2\n1,0.25,\n2,nan,inf\n")
    assert read_metrics(tmp_path) == [
        {"epoch": 1, "val_loss": 0.25, "probe_age_r2": None},
        {"epoch": 2, "val_loss": None, "probe_age_r2": None},
    ]
    assert read_metrics(tmp_path / "absent") == []


def test_a_run_without_its_weights_is_not_finished(tmp_path):
    (tmp_path / "encoder.json").write_text("{}")
    assert not is_finished(tmp_path)
    (tmp_path / "encoder.safetensors").touch()
    assert is_finished(tmp_path)

from neurocontrast.stages.run_folder import read_metrics


def test_metrics_are_numbers_or_none(tmp_path):
    (tmp_path / "metrics.csv").write_text("epoch,val_loss,probe_age_r2\n1,0.25,\n2,nan,inf\n")
    assert read_metrics(tmp_path) == [
        {"epoch": 1, "val_loss": 0.25, "probe_age_r2": None},
        {"epoch": 2, "val_loss": None, "probe_age_r2": None},
    ]
    assert read_metrics(tmp_path / "absent") == []

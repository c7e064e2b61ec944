"""What `pretrain` says where the package that makes views of images is not installed."""

from __future__ import annotations

import sys

import pytest

from neurocontrast import prepare_images, pretrain
from neurocontrast.exceptions import MissingDependencyError


def test_without_kornia_nothing_is_written(tmp_path, monkeypatch):
    participants = prepare_images(tmp_path / "digits", n_train=20, n_validation=10, n_test=10)
    monkeypatch.setitem(sys.modules, "kornia", None)
    config = {"data": {"kind": "images", "participants": str(participants)}, "encoder": {"name": "resnet_small"}}
    with pytest.raises(MissingDependencyError, match=r"pip install 'neurocontrast\[images\]'"):
        pretrain(config, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()

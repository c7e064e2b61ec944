"""What docs/coming_from.md says of other packages: its snippets run, and its equalities hold for their formulas."""

import re
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy, normalize

import neurocontrast
from neurocontrast import losses

PAGE = (Path(neurocontrast.__file__).parents[1] / "docs" / "coming_from.md").read_text()
TIGHT = {"rtol": 1e-5, "atol": 1e-6}


@pytest.fixture(scope="module")
def ran():
    """The names that the snippets leave, run one after the other."""
    names = {"__name__": __name__}
    torch.manual_seed(0)
    snippets = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(snippets) == 7
    for snippet in snippets:
        exec(compile(snippet, "coming_from.md", "exec"), names)
    return names


def _scores(z1, z2, temperature):
    """Similarities of the pool, the anchor's own at −∞."""
    z = normalize(torch.cat([z1, z2]), dim=1)
    return (z @ z.T / temperature).fill_diagonal_(-torch.inf)


def _twins(n):
    return torch.arange(2 * n).roll(n)


def test_shapes_and_weights(ran):
    assert ran["each"].shape == (2, 16)
    assert ran["three"].shape == ran["one"].shape == ran["weighted"].shape == ()
    torch.testing.assert_close(
        ran["weighted"], ran["each"].mean(), **TIGHT
    )  # labels are equally frequent
    torch.testing.assert_close(ran["value"], ran["same"], **TIGHT)


def test_a_queue_adds_candidates_and_no_anchor(ran):
    z1 = normalize(ran["z1"], dim=1)
    keys = normalize(ran["keys"], dim=1)
    torch.testing.assert_close(
        ran["moco"], cross_entropy(z1 @ keys.T / 0.07, torch.arange(16)), **TIGHT
    )


def test_dcl_is_that_of_lightly(ran):
    scores = _scores(ran["z1"], ran["z2"], 0.1)
    positives = scores[range(32), _twins(16)].clone()
    scores[range(32), _twins(16)] = -torch.inf
    torch.testing.assert_close(ran["dcl"], (scores.logsumexp(1) - positives).mean(), **TIGHT)


def test_ntxent_of_pml_is_sincere_where_labels_are_as_frequent(ran):
    labels = ran["labels"]
    scores = _scores(ran["z1"], ran["z2"], 0.1)
    same = labels == labels[:, None]
    negatives = scores.masked_fill(same, -torch.inf).logsumexp(1, keepdim=True)
    pairs = (torch.logaddexp(scores, negatives) - scores)[same.fill_diagonal_(False)]
    torch.testing.assert_close(
        pairs.mean(), losses.SINCERE("label", temperature=0.1)(ran["z1"], ran["z2"], ran["batch"])
    )

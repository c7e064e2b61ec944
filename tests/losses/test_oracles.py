"""Every loss against values and gradients of the papers' own released code (``tests/oracles``)."""

import json
import math
from pathlib import Path

import pytest
import torch

from neurocontrast import kernels, losses
from tests.losses import naive

FOLDER = Path(__file__).parents[1] / "oracles"
REPEATS_OF_A_VARIANT = "yaware_duplums_age_sigma5_tau0.1"


def _rbf(sigma):
    return kernels.Gaussian("y", sigma=sigma)


# The CCL-K oracles write their RBF as exp(-d²/tz): sigma = sqrt(tz / 2).
CASES = {
    "align_uniform_stl10_total": losses.AlignmentUniformity(alpha=2.0, t=2.0),
    "cclk_PAPER_cl-infonce_RBF_tz1.0_lam0.01_tau0.1": losses.WeaklySupervisedCCLK(
        _rbf(math.sqrt(0.5)), temperature=0.1, ridge=0.01
    ),
    "cclk_PAPER_cl-infonce_cosine_tz1_lam0.01_tau0.1": losses.WeaklySupervisedCCLK(
        kernels.Cosine("y"), temperature=0.1, ridge=0.01
    ),
    "cclk_PAPER_weac-infonce_RBF_tz1.0_lam0.01_tau0.1": losses.FairCCLK(
        _rbf(math.sqrt(0.5)), temperature=0.1, ridge=0.01
    ),
    "cond_align_age_sigma5_tau0.1": losses.ConditionalAlignment(_rbf(5.0), temperature=0.1),
    "cond_align_y2_sigma1_tau0.1": losses.ConditionalAlignment(_rbf(1.0), temperature=0.1),
    "cond_unif_age_sigma5_tau0.1": losses.ConditionalUniformity(_rbf(5.0), temperature=0.1),
    "cond_unif_y2_sigma1_tau0.1": losses.ConditionalUniformity(_rbf(1.0), temperature=0.1),
    "cond_unif_labels_tau0.1": losses.ConditionalUniformity(
        kernels.Categorical("label"), temperature=0.1
    ),
    "dcl_debiasedFalse_tau0.5_tp0.1": losses.NTXent(temperature=0.5),
    "dcl_debiasedTrue_tau0.1_tp0.1": losses.DebiasedInfoNCE(temperature=0.1, positive_prior=0.1),
    "epssupinfonce_tufts_bal_tau0.1_eps0.25": losses.EpsilonSupInfoNCE(
        "label", temperature=0.1, epsilon=0.25
    ),
    "fair_infonce_clusters_intraTrue_tau0.1": losses.FairInfoNCE("cluster", temperature=0.1),
    "hcl_hard_tau0.1_tp0.1_beta0.5": losses.HardNegativeInfoNCE(
        temperature=0.1, positive_prior=0.1, concentration=0.5
    ),
    "infonce_clip_sym_tau0.1": losses.InfoNCE(temperature=0.1),
    "ntxent_lightly_tau0.1": losses.NTXent(temperature=0.1),
    "sincere_tufts_bal_tau0.1": losses.SINCERE("label", temperature=0.1),
    "supcon_hobbit_bal_tau0.1_base_eq": losses.SupCon("label", temperature=0.1),
    "triplet_pml_all_m0.05": losses.Triplet("label", margin=0.05),
    "weaklysup_infonce_clusters_tau0.1": losses.SupCon("cluster", temperature=0.1),
    "yaware_brainage_age_sigma5_tau0.1": losses.YAwareInfoNCE(_rbf(5.0), temperature=0.1),
    "yaware_paper_rownorm_age_sigma5_tau0.1": losses.YAwareInfoNCE(_rbf(5.0), temperature=0.1),
    "yaware_paper_rownorm_y2_sigma1_tau0.1": losses.YAwareInfoNCE(_rbf(1.0), temperature=0.1),
}
ONE_PART_ONLY = {"align_alpha2", "uniform_t2_z1"}


class Oracle:
    """One file: inputs as tensors (the embeddings as leaves) and what came out."""

    def __init__(self, name):
        content, embeddings = (
            json.loads((FOLDER / f"{each}.json").read_text()) for each in (name, "inputs")
        )
        given = [key for key in embeddings if f"grad_{key}_tangent" in content["outputs"]]
        content["inputs"] |= {key: embeddings[key] for key in given}
        self.params = content["params"]
        self.outputs = content["outputs"]
        self.inputs = {}
        for key, value in content["inputs"].items():
            whole = key in ("labels", "clusters")
            self.inputs[key] = torch.tensor(value, dtype=torch.int64 if whole else torch.float64)
        names = {"clusters": "cluster", "labels": "label", "y": "y"}
        self.metadata = {names[key]: column for key, column in self.inputs.items() if key in names}
        self.views = [
            self.inputs[key].requires_grad_() for key in ("z1", "z2") if key in self.inputs
        ]

    def assert_equals(self, value):
        """Value to 1e-10; gradient to 1e-8 with its radial part removed, since ours normalises inside."""
        torch.testing.assert_close(
            value.detach(),
            torch.tensor(self.outputs["value"], dtype=torch.float64),
            rtol=1e-10,
            atol=1e-10,
        )
        for number, gradient in enumerate(torch.autograd.grad(value, self.views), start=1):
            wanted = torch.tensor(self.outputs[f"grad_z{number}_tangent"], dtype=torch.float64)
            torch.testing.assert_close(gradient, wanted, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_equals_the_released_code(name):
    oracle = Oracle(name)
    oracle.assert_equals(CASES[name](*oracle.views, oracle.metadata))


def test_alignment_alone():
    oracle = Oracle("align_alpha2")
    oracle.assert_equals(losses.AlignmentUniformity(alpha=2.0).terms(*oracle.views)["alignment"])


def test_uniformity_of_one_view():
    """With one view given twice, alignment is 0 and both halves of the mean are that view's uniformity."""
    oracle = Oracle("uniform_t2_z1")
    oracle.assert_equals(losses.AlignmentUniformity(t=2.0)(oracle.views[0], oracle.views[0]))


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("cclk")])
def test_operator_of_the_condition(name):
    oracle = Oracle(name)
    kernel = (
        kernels.Cosine("y")
        if oracle.params["kernel"] == "cosine"
        else _rbf(math.sqrt(oracle.params["temp_z"] / 2))
    )
    operator = kernels.ConditionalEmbedding(kernel, ridge=oracle.params["lambda"])(oracle.metadata)
    torch.testing.assert_close(operator, oracle.inputs["W"], rtol=0, atol=1e-10)


def test_column_normalised_weights_are_another_loss():
    """The widely copied code is understood (the loops reproduce it) and deliberately not what ours computes."""
    oracle = Oracle(REPEATS_OF_A_VARIANT)
    weights = naive.gaussian(oracle.inputs["y"], 5.0)
    oracle.assert_equals(naive.yaware_column_normalised(*oracle.views, weights, 0.1))
    ours = losses.YAwareInfoNCE(_rbf(5.0), temperature=0.1)(*oracle.views, oracle.metadata)
    assert abs(ours.item() - oracle.outputs["value"]) > 1
    assert abs(2 * ours.item() - oracle.outputs["value"]) > 1e-3


def test_no_file_is_left_out():
    files = {file.stem for file in FOLDER.glob("*.json")}
    assert files == {"inputs", *CASES, *ONE_PART_ONLY, REPEATS_OF_A_VARIANT}

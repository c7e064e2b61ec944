import pytest
import torch

from neurocontrast.config import build_objective, load_config
from neurocontrast.kernels.factors import build_kernel
from neurocontrast.losses.registry import LOSSES

KERNEL = "kernel: [{column: age, type: gaussian, sigma: 5}, {column: sex, type: categorical}]"
METADATA = {"age": [20.0, 30.0, 42.0, 50.0], "sex": [0, 1, 0, 1], "site": [0, 0, 1, 1]}
OBJECTIVES = {
    "infonce": "symmetric: false",
    "ntxent": "temperature: 0.5",
    "yaware": KERNEL,
    "exponential_yaware": KERNEL,
    "rank_n_contrast": "column: age",
    "conditional": f"{KERNEL}, uniformity_weight: 2",
    "conditional_alignment": KERNEL,
    "conditional_uniformity": f"{KERNEL}, negatives: [{{column: site, type: categorical}}]",
    "global_uniformity": "temperature: 0.5",
    "alignment_uniformity": "t: 3",
    "supcon": "label: site",
    "sincere": "label: site",
    "epsilon_supinfonce": "label: site, epsilon: 0.1",
    "debiased": "positive_prior: 0.2",
    "hard_negative": "concentration: 0.5",
    "fair_infonce": "cluster: site",
    "triplet": "label: site, margin: 0.1",
    "weakly_supervised_cclk": KERNEL,
    "fair_cclk": KERNEL,
    "supervised": "column: age",
    "hard_negative_cclk": "kernel: [{column: embedding, type: cosine}]",
}


def objective(text):
    return build_objective(load_config(overrides=[f"objective={{{text}}}"]).objective)


def test_every_loss_of_the_schema_is_tried_here():
    assert {*OBJECTIVES, "sum"} == set(LOSSES)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_loss_can_be_built_and_used(name):
    built = objective(f"loss: {name}, {OBJECTIVES[name]}")
    z1, z2 = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(0))
    assert built(z1, z2, METADATA).isfinite()
    assert set(built.columns) <= set(METADATA)


def test_missing_rule_and_bandwidths_reach_the_kernel():
    def kernel(text):
        return build_kernel(
            load_config(
                None, [f"objective={{loss: yaware, kernel: [{{{text}}}]}}"]
            ).objective.kernel
        )

    built = kernel("column: age, type: gaussian, sigma: silverman, missing: marginal")
    assert (built.rule, built.missing) == ("silverman", "marginal")
    assert kernel("column: age, type: laplacian, sigma: [1, 2.5]").sigma.tolist() == [1.0, 2.5]

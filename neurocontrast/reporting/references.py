"""Numbered citations: each reference once, in the order in which the text names it."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["REFERENCES", "Citations"]

REFERENCES: Mapping[str, str] = {
    "infonce": "van den Oord A, Li Y, Vinyals O. Representation learning with contrastive predictive coding. "
    "arXiv:1807.03748, 2018.",
    "ntxent": "Chen T, Kornblith S, Norouzi M, Hinton G. A simple framework for contrastive learning of visual "
    "representations. ICML 2020.",
    "yaware": "Dufumier B, Gori P, Victor J, et al. Contrastive learning with continuous proxy meta-data for 3D MRI "
    "classification. MICCAI 2021.",
    "conditional": "Dufumier B, Gori P, Victor J, Grigis A, Duchesnay E. Conditional alignment and uniformity for "
    "contrastive learning with continuous proxy labels. arXiv:2111.05643, 2021.",
    "alignment_uniformity": "Wang T, Isola P. Understanding contrastive representation learning through alignment and "
    "uniformity on the hypersphere. ICML 2020.",
    "supcon": "Khosla P, Teterwak P, Wang C, et al. Supervised contrastive learning. NeurIPS 2020.",
    "sincere": "Feeney P, Hughes MC. SINCERE: supervised information noise-contrastive estimation revisited. "
    "arXiv:2309.14277, 2023.",
    "epsilon_supinfonce": "Barbano CA, Dufumier B, Tartaglione E, Grangetto M, Gori P. Unbiased supervised contrastive "
    "learning. ICLR 2023.",
    "debiased": "Chuang C-Y, Robinson J, Lin Y-C, Torralba A, Jegelka S. Debiased contrastive learning. NeurIPS 2020.",
    "hard_negative": "Robinson J, Chuang C-Y, Sra S, Jegelka S. Contrastive learning with hard negative samples. "
    "ICLR 2021.",
    "fair_infonce": "Ma MQ, Tsai Y-HH, Liang PP, et al. Conditional contrastive learning for improving fairness in "
    "self-supervised learning. arXiv:2106.02866, 2021.",
    "cclk": "Tsai Y-HH, Li T, Ma MQ, et al. Conditional contrastive learning with kernel. ICLR 2022.",
    "triplet": "Schroff F, Kalenichenko D, Philbin J. FaceNet: a unified embedding for face recognition and "
    "clustering. CVPR 2015.",
    "histogram": "Nyúl LG, Udupa JK, Zhang X. New variants of a method of MRI scale standardization. IEEE Trans Med "
    "Imaging 2000;19:143–150.",
    "white-matter": "Reinhold JC, Dewey BE, Carass A, Prince JL. Evaluating the impact of intensity normalization on "
    "MR image synthesis. Proc SPIE 2019;10949:109493H.",
    "densenet": "Huang G, Liu Z, van der Maaten L, Weinberger KQ. Densely connected convolutional networks. CVPR 2017.",
    "resnet": "He K, Zhang X, Ren S, Sun J. Deep residual learning for image recognition. CVPR 2016.",
    "lenet": "LeCun Y, Bottou L, Bengio Y, Haffner P. Gradient-based learning applied to document recognition. "
    "Proc IEEE 1998;86:2278–2324.",
    "monai": "Cardoso MJ, Li W, Brown R, et al. MONAI: an open-source framework for deep learning in healthcare. "
    "arXiv:2211.02701, 2022.",
    "torch": "Paszke A, Gross S, Massa F, et al. PyTorch: an imperative style, high-performance deep learning library. "
    "NeurIPS 2019.",
    "scikit-learn": "Pedregosa F, Varoquaux G, Gramfort A, et al. Scikit-learn: machine learning in Python. "
    "J Mach Learn Res 2011;12:2825–2830.",
    "nested": "Varma S, Simon R. Bias in error estimation when using cross-validation for model selection. "
    "BMC Bioinformatics 2006;7:91.",
    "bootstrap": "Efron B, Tibshirani RJ. An introduction to the bootstrap. New York: Chapman & Hall; 1993.",
    "bca": "Efron B. Better bootstrap confidence intervals. J Am Stat Assoc 1987;82:171–185.",
    "permutation": "Ojala M, Garriga GC. Permutation tests for studying classifier performance. "
    "J Mach Learn Res 2010;11:1833–1863.",
    "never_zero": "Phipson B, Smyth GK. Permutation p-values should never be zero: calculating exact p-values when "
    "permutations are randomly drawn. Stat Appl Genet Mol Biol 2010;9:39.",
    "delong": "DeLong ER, DeLong DM, Clarke-Pearson DL. Comparing the areas under two or more correlated receiver "
    "operating characteristic curves: a nonparametric approach. Biometrics 1988;44:837–845.",
    "nadeau": "Nadeau C, Bengio Y. Inference for the generalization error. Mach Learn 2003;52:239–281.",
    "holm": "Holm S. A simple sequentially rejective multiple test procedure. Scand J Stat 1979;6:65–70.",
    "calibration": "Van Calster B, McLernon DJ, van Smeden M, Wynants L, Steyerberg EW. Calibration: the Achilles heel "
    "of predictive analytics. BMC Med 2019;17:230.",
    "youden": "Youden WJ. Index for rating diagnostic tests. Cancer 1950;3:32–35.",
    "combat": "Johnson WE, Li C, Rabinovic A. Adjusting batch effects in microarray expression data using empirical "
    "Bayes methods. Biostatistics 2007;8:118–127.",
    "combat_mri": "Fortin J-P, Cullen N, Sheline YI, et al. Harmonization of cortical thickness measurements across "
    "scanners and sites. NeuroImage 2018;167:104–120.",
    "hsic": "Gretton A, Bousquet O, Smola A, Schölkopf B. Measuring statistical dependence with Hilbert–Schmidt "
    "norms. ALT 2005:63–77.",
    "cka": "Kornblith S, Norouzi M, Lee H, Hinton G. Similarity of neural network representations revisited. "
    "ICML 2019.",
    "internal_external": "Steyerberg EW, Harrell FE Jr. Prediction models need appropriate internal, "
    "internal-external, and external validation. J Clin Epidemiol 2016;69:245–247.",
    "recentring": "Li Y, Wang N, Shi J, Hou X, Liu J. Adaptive batch normalization for practical domain adaptation. "
    "Pattern Recognit 2018;80:109–117.",
    "mahalanobis": "Lee K, Lee K, Lee H, Shin J. A simple unified framework for detecting out-of-distribution samples "
    "and adversarial attacks. NeurIPS 2018:7167–7177.",
    "shrinkage": "Ledoit O, Wolf M. A well-conditioned estimator for large-dimensional covariance matrices. "
    "J Multivar Anal 2004;88:365–411.",
    "neighbours": "Sun Y, Ming Y, Zhu X, Li Y. Out-of-distribution detection with deep nearest neighbors. ICML 2022.",
    "conformal": "Bates S, Candès E, Lei L, Romano Y, Sesia M. Testing for outliers with conformal p-values. "
    "Ann Stat 2023;51:149–178.",
    "openbhb": "Dufumier B, Grigis A, Victor J, et al. OpenBHB: a large-scale multi-site brain MRI data-set for age "
    "prediction and debiasing. NeuroImage 2022;263:119637.",
    "occlusion": "Zeiler MD, Fergus R. Visualizing and understanding convolutional networks. ECCV 2014:818–833.",
    "gradient": "Simonyan K, Vedaldi A, Zisserman A. Deep inside convolutional networks: visualising image "
    "classification models and saliency maps. ICLR workshop 2014.",
    "smoothgrad": "Smilkov D, Thorat N, Kim B, Viégas F, Wattenberg M. SmoothGrad: removing noise by adding noise. "
    "arXiv:1706.03825, 2017.",
    "mni": "Fonov V, Evans AC, Botteron K, et al. Unbiased average age-appropriate atlases for pediatric studies. "
    "NeuroImage 2011;54:313–327.",
    "nilearn": "Abraham A, Pedregosa F, Eickenberg M, et al. Machine learning for neuroimaging with scikit-learn. "
    "Front Neuroinform 2014;8:14.",
    "umap": "McInnes L, Healy J, Melville J. UMAP: uniform manifold approximation and projection for dimension "
    "reduction. arXiv:1802.03426, 2018.",
    "kornia": "Riba E, Mishkin D, Ponsa D, Rublee E, Bradski G. Kornia: an open source differentiable computer vision "
    "library for PyTorch. WACV 2020.",
    "cifar": "Krizhevsky A. Learning multiple layers of features from tiny images. Technical report, University of "
    "Toronto, 2009.",
    "fashion-mnist": "Xiao H, Rasul K, Vollgraf R. Fashion-MNIST: a novel image dataset for benchmarking machine "
    "learning algorithms. arXiv:1708.07747, 2017.",
    "digits": "Alpaydin E, Kaynak C. Optical recognition of handwritten digits. UCI Machine Learning Repository, 1998.",
    "cosine": "Loshchilov I, Hutter F. SGDR: stochastic gradient descent with warm restarts. ICLR 2017.",
    "wilson": "Wilson EB. Probable inference, the law of succession, and statistical inference. J Am Stat Assoc "
    "1927;22:209–212.",
    "reliability": "Guo C, Pleiss G, Sun Y, Weinberger KQ. On calibration of modern neural networks. ICML 2017.",
    "mcnemar": "McNemar Q. Note on the sampling error of the difference between correlated proportions or percentages. "
    "Psychometrika 1947;12:153–157.",
    "neurips": "Conference on Neural Information Processing Systems. Paper checklist guidelines. 2024. "
    "https://neurips.cc/public/guides/PaperChecklist.",
    "reforms": "Kapoor S, Cantrell EM, Peng K, et al. REFORMS: consensus-based recommendations for "
    "machine-learning-based science. Sci Adv 2024;10:eadk3452.",
    "model_cards": "Mitchell M, Wu S, Zaldivar A, et al. Model cards for model reporting. FAT* 2019:220–229.",
    "tripod": "Collins GS, Moons KGM, Dhiman P, et al. TRIPOD+AI statement: updated guidance for reporting clinical "
    "prediction models that use regression or machine learning methods. BMJ 2024;385:e078378.",
    "claim": "Tejani AS, Klontzas ME, Gatti AA, et al. Checklist for Artificial Intelligence in Medical Imaging "
    "(CLAIM): 2024 update. Radiol Artif Intell 2024;6:e240300.",
}
"""Works that a methods text can name."""


class Citations:
    """Gives references their numbers as a text names them.

    Examples
    --------
    >>> cite = Citations()
    >>> cite("bootstrap"), cite("delong", "bootstrap")
    ('[1]', '[2, 1]')
    >>> [number for number, _ in cite.listed()]
    [1, 2]
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __call__(self, *names: str) -> str:
        """Return the mark of one or more references: "[3]" or "[3, 4]"."""
        numbers = [self._numbers.setdefault(name, len(self._numbers) + 1) for name in names]
        return f"[{', '.join(str(number) for number in numbers)}]"

    def listed(self) -> list[tuple[int, str]]:
        """Return the references that were named, by number."""
        return [(number, REFERENCES[name]) for name, number in self._numbers.items()]

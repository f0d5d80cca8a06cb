"""The reproductions by name, in a module that does not import JAX, so that they are listed quickly."""

from typing import TYPE_CHECKING

from ergonet._registry import Entry, Registry

if TYPE_CHECKING:
    from experiments.record import Experiment

REPRODUCTIONS: "Registry[Experiment]" = Registry(
    "reproduction",
    {
        "lau-ensemble": Entry(
            "experiments.lau2018.ensemble:EXPERIMENT",
            about="Lau2018, Table 4.1: early-stopping ensembles against a BNN",
        ),
        "lau-termination": Entry(
            "experiments.lau2018.termination:EXPERIMENT",
            about="Lau2018, Table 4.2: XHMC against the no-U-turn criterion",
        ),
        "lau-static": Entry(
            "experiments.lau2018.static:EXPERIMENT",
            about="Lau2018, Table 4.13: static and windowed against dynamic HMC",
        ),
        "lau-layers": Entry(
            "experiments.lau2018.layers:EXPERIMENT", about="Lau2018, Table 4.11: 2, 3 and 4 hidden layers"
        ),
        "lau-scaled": Entry(
            "experiments.lau2018.scaled:EXPERIMENT", about="Lau2018, Table 4.9: prior variance 1 or 1 / units"
        ),
        "lau-precision": Entry(
            "experiments.lau2018.precision:EXPERIMENT", about="Lau2018, Table 4.12: float32 against float64"
        ),
        "lau-gibbs": Entry(
            "experiments.lau2018.gibbs:EXPERIMENT",
            about="Lau2018, Table 4.3: Gibbs against joint sampling of a precision",
        ),
        "lau-priors": Entry(
            "experiments.lau2018.priors:EXPERIMENT", about="Lau2018, Table 4.4: priors from a normal to the horseshoe"
        ),
        "lau-sghmc": Entry(
            "experiments.lau2018.sghmc:EXPERIMENT",
            about="Lau2018, Tables 4.5-4.8: SGHMC over a grid, as intended and as printed",
        ),
        "lau-metric": Entry(
            "experiments.lau2018.metric:EXPERIMENT", about="Lau2018, Table 4.10: dense, diagonal and identity metric"
        ),
        "lau-waic": Entry(
            "experiments.lau2018.waic:EXPERIMENT",
            about="Lau2018, Table 4.14: WAIC by units, and whether any criterion chooses well",
        ),
        "choo-verify": Entry(
            "experiments.choo2000.verify:EXPERIMENT", about="Choo2000, Figs. 5.7, 5.8: three methods, one posterior"
        ),
        "choo-performance": Entry(
            "experiments.choo2000.performance:EXPERIMENT", about="Choo2000, Table 5.12: variance of means"
        ),
        "choo-tuning": Entry(
            "experiments.choo2000.tuning:EXPERIMENT", about="Choo2000, Table 5.11: best lengths and step sizes"
        ),
        "choo-rejection": Entry(
            "experiments.choo2000.rejection:EXPERIMENT", about="Choo2000, Figs. 6.2-6.7: rejection rates by length"
        ),
        "choo-modern": Entry(
            "experiments.choo2000.modern:EXPERIMENT",
            about="After Choo2000: joint no-U-turn sampling at equal gradients",
        ),
        "sghmc-toy": Entry(
            "experiments.chen2014.toy:EXPERIMENT",
            about="ChenReport, Figs. 1, 2: five samplers on noisy toy densities",
        ),
        "sghmc-phase": Entry("experiments.chen2014.phase:EXPERIMENT", about="ChenReport, Fig. 3: paths in phase space"),
        "sghmc-sgld": Entry(
            "experiments.chen2014.correlated:EXPERIMENT", about="ChenReport, Fig. 4: SGHMC against SGLD on a Gaussian"
        ),
        "sghmc-mnist": Entry("experiments.chen2014.mnist:MNIST", about="ChenReport, Fig. 5: MNIST"),
        "sghmc-fashion": Entry("experiments.chen2014.mnist:FASHION", about="ChenReport, Fig. 7a: Fashion-MNIST"),
        "sghmc-steps": Entry(
            "experiments.chen2014.steps:EXPERIMENT", about="ChenReport, Fig. 8: 1, 3 and 5 steps for each draw"
        ),
        "sghmc-vi": Entry(
            "experiments.chen2014.variational:EXPERIMENT",
            about="ChenReport, Fig. 6b: SGHMC and variational inference",
        ),
        "sghmc-ood": Entry(
            "experiments.chen2014.outside:EXPERIMENT", about="ChenReport, Fig. 6a: other kinds of images"
        ),
        "sghmc-cnn": Entry(
            "experiments.chen2014.convolutions:EXPERIMENT", about="ChenReport, Fig. 7b: convolutions on CIFAR-10"
        ),
        "sghmc-nuts": Entry(
            "experiments.chen2014.nuts:EXPERIMENT",
            about="ChenReport, sec. 5.3: SG-NUTS, SGHMC, and SGHMC after SG-NUTS",
        ),
        "ask-models": Entry(
            "experiments.ask2022.models:EXPERIMENT", about="Ask2022, Fig. 7.10: residuals of networks of growing depth"
        ),
        "ask-warmup": Entry(
            "experiments.ask2022.warmup:EXPERIMENT", about="Ask2022, Figs. 7.7, 7.8: HMC of fixed length against NUTS"
        ),
        "ask-pretraining": Entry(
            "experiments.ask2022.pretraining:EXPERIMENT", about="Ask2022, Fig. 7.9: residuals by epochs of pretraining"
        ),
        "ask-cost": Entry(
            "experiments.ask2022.cost:EXPERIMENT",
            about="Ask2022, Figs. 7.1, 7.6: seconds of a draw by steps and weights",
        ),
        "ask-predict": Entry(
            "experiments.ask2022.predicting:EXPERIMENT", about="Ask2022, Figs. 7.2, 7.4: time to predict and to load"
        ),
        "ask-posterior": Entry(
            "experiments.ask2022.posterior:EXPERIMENT", about="Ask2022, Fig. 7.5: the posterior of pairs of weights"
        ),
        "cold-posteriors": Entry(
            "experiments.wenzel2020.cold:EXPERIMENT",
            about="After Wenzel2020: temperatures of a posterior on digits and two tables",
        ),
        "kim-mixture": Entry(
            "experiments.kim2018.mixture:EXPERIMENT", about="Kim2018, Table 4.1: two normals in two parts, joined"
        ),
        "kim-moons": Entry(
            "experiments.kim2018.moons:EXPERIMENT", about="Kim2018, Table 4.2: two moons in 4, 8 and 16 parts"
        ),
        "kim-mnist": Entry(
            "experiments.kim2018.mnist:EXPERIMENT", about="Kim2018, section 4.3: MNIST by Adam, HMC, and HMC in a box"
        ),
    },
)
RENAMED = {"lau-committee": "lau-ensemble"}
"""Old names of reproductions, with their new ones."""

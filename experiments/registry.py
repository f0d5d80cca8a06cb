"""The reproductions by name; light, so that they can be listed without importing JAX."""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.record import Experiment


@dataclass(frozen=True)
class Entry:
    """Where a reproduction lives, and what it is.

    Attributes:
        module: with the experiment.
        about: one line.
        attribute: its name in the module.
    """

    module: str
    about: str
    attribute: str = "EXPERIMENT"


ENTRIES = {
    "lau-committee": Entry(
        "experiments.lau2018.committee", "Lau 2018, Table 4.1: early-stopping committees against a BNN"
    ),
    "lau-termination": Entry("experiments.lau2018.termination", "Lau 2018, Table 4.2: XHMC against no-U-turn ends"),
    "lau-static": Entry("experiments.lau2018.static", "Lau 2018, Table 4.13: static and windowed against dynamic HMC"),
    "lau-layers": Entry("experiments.lau2018.layers", "Lau 2018, Table 4.11: 2, 3 and 4 hidden layers"),
    "lau-scaled": Entry("experiments.lau2018.scaled", "Lau 2018, Table 4.9: prior variance 1 or 1 / units"),
    "lau-precision": Entry("experiments.lau2018.precision", "Lau 2018, Table 4.12: float32 against float64"),
    "lau-gibbs": Entry("experiments.lau2018.gibbs", "Lau 2018, Table 4.3: Gibbs against joint sampling of a precision"),
    "lau-priors": Entry("experiments.lau2018.priors", "Lau 2018, Table 4.4: priors from a normal to the horseshoe"),
    "lau-sghmc": Entry("experiments.lau2018.sghmc", "Lau 2018, Tables 4.5-4.8: SGHMC over a grid, and as printed"),
    "lau-metric": Entry("experiments.lau2018.metric", "Lau 2018, Table 4.10: dense, diagonal and identity metric"),
    "choo-verify": Entry("experiments.choo2000.verify", "Choo 2000, Figs. 5.7, 5.8: three methods, one posterior"),
    "choo-performance": Entry("experiments.choo2000.performance", "Choo 2000, Table 5.12: variance of means"),
    "choo-tuning": Entry("experiments.choo2000.tuning", "Choo 2000, Table 5.11: best lengths and step sizes"),
    "choo-rejection": Entry("experiments.choo2000.rejection", "Choo 2000, Figs. 6.2-6.7: rejections by length"),
    "choo-modern": Entry("experiments.choo2000.modern", "After Choo 2000: joint no-U-turn sampling at equal gradients"),
    "sghmc-toy": Entry("experiments.chen2014.toy", "Document 002, Figs. 1, 2: five samplers on noisy toy densities"),
    "sghmc-phase": Entry("experiments.chen2014.phase", "Document 002, Fig. 3: paths in phase space"),
    "sghmc-sgld": Entry("experiments.chen2014.correlated", "Document 002, Fig. 4: SGHMC against SGLD on a Gaussian"),
    "sghmc-mnist": Entry("experiments.chen2014.mnist", "Document 002, Fig. 5: MNIST", "MNIST"),
    "sghmc-fashion": Entry("experiments.chen2014.mnist", "Document 002, Fig. 7a: Fashion-MNIST", "FASHION"),
    "sghmc-steps": Entry("experiments.chen2014.steps", "Document 002, Fig. 8: 1, 3 and 5 steps for each draw"),
    "sghmc-vi": Entry("experiments.chen2014.variational", "Document 002, Fig. 6b: SGHMC and variational inference"),
    "sghmc-ood": Entry("experiments.chen2014.outside", "Document 002, Fig. 6a: images of another kind"),
    "sghmc-cnn": Entry("experiments.chen2014.convolutions", "Document 002, Fig. 7b: convolutions on CIFAR-10"),
    "sghmc-nuts": Entry("experiments.chen2014.nuts", "Document 002, sec. 5.3: SG-NUTS, SGHMC and one after the other"),
}


def load(name: str) -> "Experiment":
    """The experiment of that name.

    Raises:
        KeyError: there is none.
    """
    entry = ENTRIES[name]
    return getattr(importlib.import_module(entry.module), entry.attribute)

"""Names that are gone say where their work is done now."""

import pytest

import ergonet


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("keeping", "`ergonet.retention`"),
        ("sample_minibatches", r"`ergonet\.sample\(target, kernel, \.\.\.\)` takes minibatch kernels"),
        ("MinibatchResult", r"`\.curve` and `\.running_summary`"),
    ],
)
def test_a_renamed_name_raises_with_the_new_one(name, said):
    with pytest.raises(AttributeError, match=said):
        getattr(ergonet, name)
    assert name not in dir(ergonet)


@pytest.mark.parametrize(
    ("name", "new"),
    [("EarlyStoppingCommittee", "`EarlyStoppingEnsemble`"), ("CommitteeSamples", "`EnsembleSamples`")],
)
def test_a_renamed_baseline_raises_with_the_new_name(name, new):
    with pytest.raises(AttributeError, match=new):
        getattr(ergonet.baselines, name)


def test_another_name_is_unknown():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = ergonet.nothing

"""Kinds of columns: the inputs of a network, row by row, and what unseen entries become."""

import json
import warnings
from datetime import date

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from ergonet._errors import DataError, SettingError
from ergonet.assembly import build
from ergonet.assembly.settings import ModelSettings, NetworkSettings
from ergonet.datasets import Preprocessing, from_table
from ergonet.datasets.choosing import Choices
from ergonet.datasets.dates import PARTS, parts_of
from ergonet.datasets.overview import column_rows, in_words
from ergonet.datasets.validation import position_of
from ergonet.models.embedding import EmbeddedMLP, width

ROWS = 12
FRAME = pd.DataFrame(
    {
        "age": [20.0, 21.0, np.nan, 23.0] * 3,
        "city": ["Bern", "Thun", "Visp"] * 4,
        "size": ["small", "large", "middle", None] * 3,
        "day": ["2020-01-01", "2020-07-01 12:00", None, "2021-12-31"] * 3,
        "y": np.sin(np.arange(ROWS)),
    }
)
EVERY = Choices(types={"day": "date", "size": "ordinal:small,middle,large"})


def learned(choices: Choices = EVERY, frame: pd.DataFrame = FRAME) -> Preprocessing:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = from_table(frame, "y", choices=choices, test_fraction=0.0).preprocessing
    return Preprocessing.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False)))


def inputs(preprocessing: Preprocessing, frame: pd.DataFrame, *names: str) -> list[list[float]]:
    """Inputs before scaling, by their names."""
    scaled = preprocessing.transform(frame).astype(np.float64)
    back = scaled * preprocessing.feature_sd + preprocessing.feature_mean
    chosen = [preprocessing.encoded_names.index(name) for name in names]
    return np.round(back[:, chosen], 5).tolist()


def test_missing_numbers_become_the_median_and_are_marked():
    assert inputs(learned(), FRAME.head(4), "age", "age is missing") == [[20, 0], [21, 0], [21, 1], [23, 0]]


def test_missing_entries_are_refused_on_request():
    with pytest.raises(DataError, match=r"'age' of the table has a missing value \(NaN\) at data row 3.*`missing` is"):
        learned(Choices(drop=["size", "day"], missing="refuse"))
    plain = learned(Choices(columns=["city"], missing="refuse"))
    with pytest.raises(DataError, match=r"'city' of the new data has a missing value \(NaN\) at data row 2"):
        plain.transform(pd.DataFrame({"city": ["Bern", None]}))


def test_a_number_missing_where_no_training_row_was_is_refused():
    frame = FRAME.assign(age=np.arange(ROWS) / 7)
    with pytest.raises(DataError, match=r"Column 'age' of the new data has a missing value \(NaN\) at data row 3"):
        learned(Choices(columns=["age"]), frame).transform(FRAME)


def test_unseen_and_missing_categories_have_an_input_that_training_never_used():
    preprocessing = learned()
    names = ("city=Bern", "city=Thun", "city=Visp", "city=(other)")
    with pytest.warns(UserWarning, match=r"'city' .* has 2 entries that no training row has, the first is 'Genf' at"):
        found = inputs(preprocessing, FRAME.head(3).assign(city=["Genf", "Thun", None]), *names)
    assert found == [[0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 1]]
    column = preprocessing.encoded_names.index("city=(other)")
    assert (preprocessing.transform(FRAME)[:, column] == 0).all()
    spread = np.sqrt(2 / 9)  # of each of three equally frequent categories
    np.testing.assert_allclose(preprocessing.feature_sd[column], spread)


def test_missing_categories_of_the_training_rows_are_a_category():
    preprocessing = learned(frame=FRAME.assign(city=["Bern", None] * 6))
    assert preprocessing.encoders["city"].categories == ("(missing)", "Bern")
    assert inputs(preprocessing, FRAME.head(2).assign(city=[None, "Bern"]), "city=(missing)") == [[1], [0]]


def test_levels_become_ranks_in_their_order():
    expected = [[0, 0], [2, 0], [1, 0], [1, 1]]  # the median of the ranks for a missing one
    assert inputs(learned(), FRAME.head(4), "size", "size is missing") == expected
    with pytest.raises(DataError, match=r"'size' of the new data has 'tiny' at data row 2.*none of its levels"):
        learned().transform(FRAME.head(2).assign(size=["small", "tiny"]))
    ordered = pd.Categorical(["b", "a"] * 6, categories=["b", "a"], ordered=True)
    assert learned(Choices(), FRAME.assign(size=ordered).filter(["size", "y"])).types == {"size": "ordinal:b,a"}
    with pytest.raises(DataError, match=r"nothing says in which order.*`--types size=ordinal:large,middle,small`"):
        learned(Choices(columns=["size"], types={"size": "ordinal"}))


def test_parts_of_dates():
    days = np.array([18262.0, 18444.5, 19357.0])  # 2020-01-01, 2020-07-01 12:00, 2022-12-31
    names = ("year", "year sine", "year cosine", "Monday", "Wednesday", "Saturday", "hour sine", "hour cosine")
    found = parts_of(days)[:, [PARTS.index(name) for name in names]]
    turn = 2 * np.pi * np.array([0, 182.5 / 366, 364 / 365])
    expected = [[2020, 2020, 2022], np.sin(turn), np.cos(turn), [0, 0, 0], [1, 1, 0], [0, 0, 1], [0, 0, 0], [1, -1, 1]]
    np.testing.assert_allclose(found.T, expected, atol=1e-9)


@pytest.mark.parametrize("missing", [[], [17]])
def test_whole_days_and_noons_vary_in_no_more_than_they_do(missing):
    """Rounding errors of a sine, and of a fill between two days, are no inputs."""
    days = pd.Series(pd.date_range("2024-01-01", periods=61)).mask(np.isin(np.arange(61), missing))
    frame = pd.DataFrame({"day": days, "a": np.arange(61.0) % 7, "y": np.arange(61.0) % 5 + 0.5})
    choices = Choices(types={"day": "date"})
    names = from_table(frame, "y", choices=choices).preprocessing.encoded_names
    assert "day: year sine" in names
    assert not [one for one in names if "hour" in one]
    noons = from_table(frame.assign(day=days + pd.to_timedelta(np.arange(61) % 2 * 12, "h")), "y", choices=choices)
    assert [one for one in noons.preprocessing.encoded_names if "hour" in one] == ["day: hour cosine"]


def test_dates_become_their_parts_that_vary():
    preprocessing = learned()
    found = inputs(preprocessing, FRAME.head(4), "day: year", "day: Friday", "day: hour cosine", "day is missing")
    assert found == [[2020, 0, 1, 0], [2020, 0, -1, 0], [2020, 0, -1, 1], [2021, 1, 1, 0]]
    assert "day: Monday" not in preprocessing.encoded_names


@pytest.mark.parametrize(
    ("days", "year"),
    [
        (["31.12.2020", "01.01.2021"], 2020),
        (["31/12/2020", "01/01/2021"], 2020),
        (["12/31/2020 08:30", "01/01/2021 10:00"], 2020),
        (["12/31/2020 8:30 AM", "01/01/2021 1:15 PM"], 2020),
        (["12-31-2020", "01-01-2021"], 2020),
        (["31/12/20", "1/1/21"], 2020),
        (["31-Dec-2020", "01-Jan-2021"], 2020),
        (pd.Series([date(2020, 12, 31), date(2021, 1, 1)], dtype=pd.ArrowDtype(pa.date32())), 2020),
        (["2020-12-31T23:59:59Z", "2021-01-01"], 2020),
        (pd.to_datetime(["2020-12-31", "2021-01-01"]), 2020),
        ([date(2020, 12, 31), date(2021, 1, 1)], 2020),
    ],
)
def test_dates_in_several_forms(days, year):
    preprocessing = learned(Choices(types={"day": "date"}), FRAME.filter(["age", "y"]).assign(day=list(days) * 6))
    assert inputs(preprocessing, FRAME.head(1).assign(day=days[0]), "day: year") == [[year]]


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (["01/02/2020", "03/04/2020"] * 6, r"'day' .* could mean two dates in every row.*2020-12-31"),
        (["2020-01-01", "soon"] * 6, r"'day' of the table does not hold dates of one known form; the first is"),
    ],
)
def test_dates_that_are_not_clear_are_refused(days, said):
    with pytest.raises(DataError, match=said):
        learned(Choices(types={"day": "date"}), FRAME.assign(day=days).filter(["age", "day", "y"]))


DATES = [
    ("03-04-2024", "05-04-2024"),
    ("03/04/24", "3/5/24"),
    ("03-Apr-2024", "28-FEB-2024"),
    ("03/04/2024 1:15 PM", "03/04/2024 11:59 AM"),
]


def test_texts_that_look_like_dates_offer_their_parts():
    with pytest.raises(
        DataError, match=r"'day' .* holds dates or times, the first is '2020-01-01'.*`--types day=date`"
    ):
        learned(Choices())
    for first, second in DATES:
        with pytest.raises(DataError, match=f"holds dates or times, the first is '{first}'"):
            learned(Choices(), FRAME.filter(["age", "y"]).assign(day=[first, second] * 6))
    with pytest.raises(DataError, match=r"holds 1 value that is no date of the form ISO8601: the first is 'x' at data"):
        learned().transform(FRAME.head(1).assign(day="x"))


def test_texts_that_all_differ_are_left_out():
    frame = FRAME.assign(name=[None, None, *(f"n{row}" for row in range(2, ROWS))])
    with pytest.warns(UserWarning, match=r"Left out 1 column .* look.* like a name or an identifier: 'name'"):
        found = from_table(frame, "y", choices=EVERY).preprocessing
    assert "name" in found.dropped
    with pytest.raises(DataError, match=r"No input column is left: 'name' is an identifier or a text that differs"):
        learned(Choices(columns=["name"]), frame)


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        (Choices(drop=["aeg"]), r"`drop`: the table has no column 'aeg'\. Did you mean 'age'"),
        (Choices(drop=["y"]), r"`drop`: 'y' is the target"),
        (Choices(columns=["age, city"], drop=["age,city"]), r"`drop` and `columns` leave no input column"),
        (Choices(types={"age": "number"}), r"`types`: column 'age' cannot be 'number'\. Did you mean 'numeric'"),
        (Choices(missing="mean"), r"`missing` must be 'indicator' or 'refuse', got 'mean'"),
        (Choices(one_hot_limit=0), r"`one_hot_limit` must be an integer of at least 1, got 0"),
    ],
)
def test_choices_that_do_not_fit_are_refused(choices, said):
    with pytest.raises(SettingError, match=said):
        learned(choices)


def test_columns_are_chosen_by_name():
    assert learned(Choices(columns=["age,city"])).kept == ("age", "city")
    assert learned(Choices(drop=["size, day", "city"])).kept == ("age",)
    odd = FRAME.filter(["age", "y"]).assign(**{"a,b": np.cos(np.arange(ROWS))})
    assert learned(Choices(drop=["a,b"]), odd).kept == ("age",)


def test_tables_of_other_libraries_are_taken():
    expected = from_table(FRAME, "y", choices=EVERY)
    for frame in (pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME)):
        found = from_table(frame, "y", choices=EVERY)
        np.testing.assert_array_equal(found.x_train, expected.x_train)
        np.testing.assert_array_equal(found.preprocessing.transform(frame), expected.preprocessing.transform(FRAME))


HIDDEN = ModelSettings(network=NetworkSettings(hidden=(50,)))
MANY = pd.DataFrame(
    {
        "station": [f"s{row % 6}" for row in range(24)],
        "a": np.cos(np.arange(24) ** 2),
        "y": np.sin(np.arange(24) ** 2),
    }
)


def test_many_categories_become_rows_of_a_table_of_weights():
    preprocessing = learned(Choices(one_hot_limit=5), MANY)
    assert preprocessing.encoded_names == ("a", "station")  # indices last
    assert preprocessing.embeddings == (7,)
    with pytest.warns(UserWarning, match="'station' .* has 1 entry that no training row has"):
        new = preprocessing.transform(MANY.head(3).assign(station=["s4", "s0", "elsewhere"]))
    assert new[:, 1].tolist() == [4, 0, 6]

    model = build.model(HIDDEN, build.Task.of(preprocessing))
    network = model.network
    assert isinstance(network, EmbeddedMLP)
    leaves = network.leaves()
    assert leaves["embeddings.0.weight"].shape == (7, 2)
    assert leaves["layers.0.weight"].shape == (50, 3)
    keys = iter(jax.random.split(jax.random.key(0), len(leaves)))
    weights = {path: jax.random.normal(next(keys), leaf.shape) for path, leaf in leaves.items()}
    found = network.apply(weights, network.prepare(jnp.asarray(new)))
    table, first = weights["embeddings.0.weight"], weights["layers.0.weight"]
    rows = jnp.concatenate([new[:, :1], table[jnp.array([4, 0, 6])]], axis=1)
    hidden = jnp.tanh(rows @ first.T + weights["layers.0.bias"])
    expected = hidden @ weights["layers.1.weight"].T + weights["layers.1.bias"]
    np.testing.assert_allclose(found, expected.T, rtol=1e-4)


def test_the_row_of_unseen_categories_depends_on_nothing_but_its_prior():
    preprocessing = learned(Choices(one_hot_limit=5), MANY)
    model = build.model(HIDDEN, build.Task.of(preprocessing))
    posterior = model.condition(preprocessing.transform(MANY), preprocessing.transform_target(MANY["y"]))
    position = jax.random.normal(jax.random.key(1), (posterior.dim,))
    gradient = jax.grad(posterior.potential)(position)
    np.testing.assert_allclose(gradient[12:14], position[12:14], rtol=1e-5)  # N(0, 1), the last row of the table
    assert (np.abs(np.asarray(gradient[:12] - position[:12])) > 1e-4).all()


def test_width_of_embeddings():
    assert [width(levels) for levels in (2, 16, 17, 81, 1000)] == [2, 2, 3, 3, 6]
    with pytest.raises(
        SettingError, match=r"takes x of shape \[rows, 2\], of which the last 1 are indices .*got \[3, 5"
    ):
        EmbeddedMLP((2, 4, 1), (7,)).prepare(np.ones((3, 5)))


def test_direct_connections_lead_from_embeddings_to_the_outputs():
    network = EmbeddedMLP((2, 4, 1), (7,), direct=True)
    weights = {path: jnp.ones(leaf.shape) for path, leaf in network.leaves().items()}
    x, without = network.prepare(jnp.array([[3.0, 5.0]])), {**weights, "direct.weight": jnp.zeros((1, 3))}
    assert float(network.apply(weights, x)[0, 0] - network.apply(without, x)[0, 0]) == pytest.approx(3 + 2)


def test_runs_of_older_versions_refuse_unseen_categories():
    record = learned(Choices(columns=["city"])).to_dict()
    old = {**record, "version": 1, "categories": {"city": ["Bern", "Thun", "Visp"]}}
    del old["encoders"], old["feature_range"]
    old |= {name: record[name][:3] for name in ("feature_mean", "feature_sd")}
    preprocessing = Preprocessing.from_dict(old)
    assert preprocessing.encoded_names == ("city=Bern", "city=Thun", "city=Visp")
    with pytest.raises(DataError, match="has the category 'Genf' at data row 1"):
        preprocessing.transform(pd.DataFrame({"city": ["Genf"]}))


def test_what_was_told_is_a_small_table():
    frame = FRAME.assign(id=np.arange(ROWS), same=1.0, weight=np.cos(np.arange(ROWS)))
    preprocessing = learned(Choices(types=EVERY.types, drop=["id"]), frame)
    rows = {row.name: (row.kind, row.inputs, row.note) for row in column_rows(preprocessing)}
    assert rows["y"] == ("target", 0, "regression")
    assert rows["city"] == ("categorical", 4, "3: Bern, Thun, Visp")
    assert rows["age"] == ("numeric", 2, "missing entries become the median, and are marked")
    assert rows["id"] == ("not used", 0, "on request")
    assert rows["same"] == ("not used", 0, "constant")
    assert sum(inputs for _, inputs, _ in rows.values()) == len(preprocessing.encoded_names)
    assert "  ordinal      size    3: small, middle, large; missing" in in_words(preprocessing)
    assert in_words(preprocessing).splitlines()[-1] == "  numeric      weight"


@pytest.mark.parametrize(
    ("labels", "new"),
    [(["True", "False", "unknown"], [True, False]), (["08000", "8100", "A1"], [8000, 8100])],
)
def test_a_category_is_known_although_its_file_reads_as_numbers_or_as_true_and_false(labels, new):
    frame = pd.DataFrame({"c": labels * 4, "x": np.arange(12.0), "y": np.arange(12.0) ** 1.5})
    preprocessing = from_table(frame, "y", test_fraction=0.0, choices=Choices(types={"c": "categorical"})).preprocessing
    expected = preprocessing.transform(pd.DataFrame({"c": labels[:2], "x": [1.0, 2.0]}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = preprocessing.transform(pd.DataFrame({"c": new, "x": [1.0, 2.0]}))
    np.testing.assert_array_equal(found, expected)


def test_texts_of_the_same_number_are_not_guessed_at():
    assert position_of(8.0, {"08": 0, "8.0": 1}) is None
    assert position_of(8.0, {"08": 0, "8": 1}) == 1
    assert position_of(True, {"true": 0, "x": 1}) == 0


LOCAL = pd.date_range("2024-01-01 23:30", periods=12, freq="40D", tz="America/New_York")


@pytest.mark.parametrize(
    "days",
    [
        LOCAL,
        pd.Series(LOCAL, dtype=pd.ArrowDtype(pa.timestamp("us", "America/New_York"))),
        pd.Series(LOCAL.to_pydatetime(), dtype=object),
        [one.isoformat() for one in LOCAL],
        [str(one) for one in LOCAL],
        [one.strftime("%Y-%m-%dT%H:%MZ") for one in LOCAL],
    ],
)
def test_dates_of_a_time_zone_keep_the_day_and_the_hour_of_its_clocks(days):
    frame = pd.DataFrame({"day": days, "x": np.cos(np.arange(12)), "y": np.arange(12.0) ** 1.5})
    preprocessing = from_table(frame, "y", test_fraction=0.0, choices=Choices(types={"day": "date"})).preprocessing
    plain = frame.assign(day=LOCAL.tz_localize(None))
    np.testing.assert_array_equal(preprocessing.transform(frame), preprocessing.transform(plain))
    assert inputs(preprocessing, frame.head(1), "day: Monday") == [[1]]


@pytest.mark.parametrize("texts", [["2001-02", "2002-03"], ["1000-1", "1000-2"], ["8.1.10", "9.2.11"]])
def test_short_codes_are_no_dates(texts):
    found = learned(Choices(), FRAME.filter(["age", "y"]).assign(code=texts * 6))
    assert found.encoders["code"].categories == tuple(texts)


def test_infinity_is_no_large_category():
    found = learned(Choices(types={"id": "categorical"}), FRAME.filter(["age", "y"]).assign(id=[1, 2, 3] * 4))
    with pytest.raises(DataError, match="infinite"):
        found.transform(pd.DataFrame({"age": [1.0], "id": [np.inf]}))


@pytest.mark.parametrize(
    ("dtype", "first"), [("int64", 2**53), ("Int64", -(2**53) - 2), ("uint64", 2**63), (object, 2**60)]
)
def test_whole_numbers_beyond_those_of_floats_stay_different_categories(dtype, first):
    ids = pd.Series([first, first + 1, first + 2] * 4, dtype=dtype)
    frame = FRAME.filter(["age", "y"]).assign(id=ids)
    for kind in ("categorical", "ordinal"):
        found = learned(Choices(types={"id": kind}), frame)
        assert found.encoders["id"].categories == (first, first + 1, first + 2)
        assert len(np.unique(found.transform(frame), axis=0)) == ROWS
    assert learned(Choices(), frame.assign(id=ids.where(ids != first, first // 2))).kept == ("age", "id")  # as numbers
    with pytest.raises(
        DataError, match=r"'id' of the new data has -?[0-9.e+]+ at data row 2 .*Write such categories as texts"
    ):
        found.transform(FRAME.head(2).assign(id=[1.5, float(first)]))


def test_levels_that_pandas_declares_are_known_although_no_training_row_has_them():
    sizes = pd.Series(pd.Categorical(["S", "L"] * 6, categories=["S", "M", "L"], ordered=True))
    preprocessing = learned(Choices(), FRAME.filter(["age", "y"]).assign(size=sizes))
    assert preprocessing.types == {"size": "ordinal:S,M,L"}
    assert inputs(preprocessing, FRAME.head(3).assign(size=["S", "M", "L"]), "size") == [[0], [1], [2]]


@pytest.mark.parametrize("levels", ["low,mid,low", "low,,mid", ""])
def test_levels_that_are_repeated_or_empty_are_refused(levels):
    with pytest.raises(SettingError, match="`types`: the levels of column 'size' are empty or repeated"):
        Choices(types={"size": f"ordinal:{levels}"}).check()


def test_a_column_that_is_left_out_is_not_encoded():
    frame = FRAME.assign(y=np.arange(ROWS) ** 1.5)
    found = from_table(frame, "y", choices=Choices(drop=["city", "size", "day"]), test_fraction=0.0).preprocessing
    assert "city" in found.encoders
    assert found.encoded == ("age",)  # which has missing entries

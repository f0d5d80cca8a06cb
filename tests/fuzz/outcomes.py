"""What may come of an input that nobody expected: a sound result, or one error that a person can read."""

import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

from jaxtyping import TypeCheckError

from ergonet._errors import ErgonetError, visible

COUNTS: Counter[str] = Counter()
LONGEST_MESSAGE = 3000
LONGEST_CALL = 60.0  # seconds of processor time


def outcome(call: Callable[[], Any], *, also: tuple[type[Exception], ...] = ()) -> Any:
    """The result of a call, or None if it was refused in words.

    Args:
        call: the call; any other exception fails the test.
        also: exceptions that are right too, such as those that scikit-learn asks for.
    """
    COUNTS["inputs"] += 1
    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call()
    except ErgonetError as error:
        COUNTS["refused"] += 1
        check_message(str(error))
        result = None
    except (*also, TypeCheckError):  # tests check annotations; `make fuzz` does not
        COUNTS["refused"] += 1
        result = None
    except BaseException:
        COUNTS["failures"] += 1
        raise
    assert time.process_time() - began < LONGEST_CALL
    return result


def check_message(text: str) -> None:
    """A message is there, ends, can be read, and commands no terminal."""
    assert len(text) < LONGEST_MESSAGE, text
    check_output(text)


def check_output(text: str) -> None:
    """What a command prints is there, can be read, and commands no terminal."""
    assert text.strip()
    assert text == visible(text)
    assert "Traceback" not in text

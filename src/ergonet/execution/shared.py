"""Values that many jobs have in common, such as a target: each process gets them once, and not with every call.

A value is known by a token. Whoever pickles a `Shared` in the usual way sends its content along, so that any executor
of processes works; ours send the token, and the content to processes that do not have it yet. Functions that no module
holds, such as those of a script, travel by value where `cloudpickle` is installed.
"""

import io
import pickle
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING, Any

from ergonet.draws.versions import versions
from ergonet.execution.base import WorkerError

MOST_KEPT = 8  # values that a worker keeps between calls
SOFTWARE = ("ergonet", "jax", "jaxlib", "equinox", "numpy")
SETTINGS = ("jax_default_matmul_precision", "jax_threefry_partitionable", "jax_numpy_dtype_promotion")
_by_token: weakref.WeakValueDictionary[str, "Shared"] = weakref.WeakValueDictionary()
_by_id: weakref.WeakValueDictionary[int, "Shared"] = weakref.WeakValueDictionary()
_kept: OrderedDict[str, "Shared"] = OrderedDict()
_lock = RLock()


class Shared:
    """A value that does not change, with a token that is the same in all processes; made by `share`.

    Attributes:
        value: the value.
        token: its name.
        made: what was made of it in this process, by any key.
    """

    def __init__(self, value: Any, token: str, content: bytes | None = None):
        self.value, self.token, self._content = value, token, content
        self.made: dict[Any, Any] = {}

    @property
    def content(self) -> bytes:
        """The value as bytes."""
        if self._content is None:
            self._content = _dumped(self.value, Pickler)[0]
        return self._content

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` returns, called once in this process for a key."""
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]

    def __reduce__(self) -> Any:
        return _received, (self.token, self.content)


def share(value: Any) -> Shared:
    """The `Shared` of a value, always the same as long as somebody holds it."""
    with _lock:
        found = _by_id.get(id(value))
        if found is None or found.value is not value:
            found = _by_id[id(value)] = Shared(value, uuid.uuid4().hex)
            _by_token[found.token] = found
        return found


def _received(token: str, content: bytes) -> Shared:
    """A value from another process, or the one that this process has already."""
    with _lock:
        found = _by_token.get(token)
        if found is None:
            found = Shared(pickle.loads(content), token, content)  # noqa: S301  from the process that started us
            _by_token[token] = _by_id[id(found.value)] = _kept[token] = found
        if token in _kept:
            _kept.move_to_end(token)
        while len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
        return found


def lacking(tokens: Iterable[str]) -> list[str]:
    """Which of these values this process does not have."""
    return [token for token in tokens if token not in _by_token]


if TYPE_CHECKING:
    from pickle import Pickler
else:
    try:
        from cloudpickle import Pickler
    except ImportError:  # functions of scripts cannot be sent then, and an error says so
        from pickle import Pickler


class _Packer(Pickler):
    """Replaces what is shared by its token, and notes it."""

    def __init__(self, file: Any):
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.used: dict[str, Shared] = {}

    def persistent_id(self, obj: Any) -> str | None:
        if not isinstance(obj, Shared):
            return None
        self.used[obj.token] = obj
        return obj.token


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: Any, contents: Mapping[str, bytes]):
        super().__init__(file)
        self._contents = contents

    def persistent_load(self, pid: str) -> Shared:
        found = _by_token.get(pid)
        if found is not None:
            return found
        return _received(pid, self._contents[pid])


def _dumped(value: Any, kind: Any) -> tuple[bytes, Any]:
    file = io.BytesIO()
    pickler = kind(file)
    try:
        pickler.dump(value)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise WorkerError(
            f"This run cannot be sent to another process: {error}. Define functions and classes in a module, install "
            f"`cloudpickle`, or use worker threads (`executor=None`)."
        ) from error
    return file.getvalue(), pickler


def pack(value: Any) -> tuple[bytes, dict[str, Shared]]:
    """A call or a result as bytes, and what these refer to by token."""
    packed, pickler = _dumped(value, _Packer)
    return packed, pickler.used


def unpack(packed: bytes, contents: Mapping[str, bytes] | None = None) -> Any:
    """The call or the result again.

    Args:
        packed: what `pack` made.
        contents: shared values that this process may not have yet, by token.
    """
    return _Unpacker(io.BytesIO(packed), contents or {}).load()


@dataclass(frozen=True)
class Arithmetic:
    """What has to be the same in all processes, or draws would differ.

    Attributes:
        software: versions by name.
        settings: settings of JAX by name.
    """

    software: Mapping[str, str]
    settings: Mapping[str, Any]

    @staticmethod
    def ours() -> "Arithmetic":
        """That of this process."""
        import jax

        return Arithmetic(_software(), {name: getattr(jax.config, name) for name in SETTINGS})

    def require(self) -> None:
        """Take the settings in this process, and check the versions.

        Raises:
            WorkerError: the versions of this process are others.
        """
        import jax

        mine = _software()
        others = [
            f"{name} {mine[name]} instead of {wanted}" for name, wanted in self.software.items() if mine[name] != wanted
        ]
        if others:
            raise WorkerError(
                f"A worker has {', '.join(others)}, and would make other draws. Install the same versions everywhere."
            )
        for name, value in self.settings.items():
            if getattr(jax.config, name) != value:
                jax.config.update(name, value)


@cache
def _software() -> dict[str, str]:
    found = versions()
    return {name: found[name] for name in SOFTWARE}


def run_packed(packed: bytes, contents: Mapping[str, bytes], arithmetic: Arithmetic) -> bytes:
    """Run a packed call in this process, and pack its result.

    Args:
        packed: the function and its arguments.
        contents: shared values by token.
        arithmetic: that of the process that sent the call.

    Raises:
        WorkerError: the versions of this process are others.
    """
    arithmetic.require()
    function, arguments = unpack(packed, contents)
    return pack(function(*arguments))[0]

"""Array types shared by the sampling layers. Shapes are checked at run time under test."""

import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, Real, UInt

AnyArray = Array | np.ndarray
Scalar = Float[Array, ""]
Flag = Bool[Array, ""]
Count = Int[Array, ""]
Position = Float[Array, "dim"]
PRNGKey = Key[Array, ""]

__all__ = [
    "AnyArray",
    "Array",
    "Bool",
    "Count",
    "Flag",
    "Float",
    "Int",
    "Key",
    "PRNGKey",
    "Position",
    "Real",
    "Scalar",
    "UInt",
]

"""What tests count: traces of a density, evaluations of its compiled program."""


class Ledger(list):
    """A list that can be part of a compiled program's identity."""

    def __hash__(self):
        return id(self)

    def __eq__(self, other):
        return self is other

"""Parts of the space that are sampled on their own, and masses by bridge sampling, which join them."""

from ergonet.partition.bridge import LogMass, log_mass
from ergonet.partition.joined import Joined, join
from ergonet.partition.regions import Mirrored, Partition, split, split_at_random
from ergonet.partition.run import sample
from ergonet.partition.spectral import split_by_clusters
from ergonet.partition.starts import find_starts
from ergonet.partition.symmetry import split_by_sign

__all__ = [
    "Joined",
    "LogMass",
    "Mirrored",
    "Partition",
    "find_starts",
    "join",
    "log_mass",
    "sample",
    "split",
    "split_at_random",
    "split_by_clusters",
    "split_by_sign",
]

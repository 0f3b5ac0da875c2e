"""Who says what to whom: private sums, histograms and selections, each a privacy target planned for a batch size.

The table `ROWS` lists the sums. A new one is a small file with a `Row`, and its name in `sums/recipes.py`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from croupier.protocols.everything import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """Every public name, all with the first that is asked for; who imports one module alone may need no NumPy."""
    if name.startswith("__") and name != "__all__":
        raise AttributeError(name)
    everything = import_module("croupier.protocols.everything")
    globals().update({known: getattr(everything, known) for known in (*everything.__all__, "__all__")})
    if name not in globals():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals()[name]

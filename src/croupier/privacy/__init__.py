"""What a release costs: exact losses, notions and conversions, composition, calibration, ledger and audit."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from croupier.privacy.everything import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """Every public name, all with the first that is asked for; who imports one module alone may need no NumPy."""
    if name.startswith("__") and name != "__all__":
        raise AttributeError(name)
    everything = import_module("croupier.privacy.everything")
    globals().update({known: getattr(everything, known) for known in (*everything.__all__, "__all__")})
    if name not in globals():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals()[name]

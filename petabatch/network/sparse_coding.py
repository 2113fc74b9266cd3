"""The standard sparse-coding network, built in Python."""

from __future__ import annotations

from typing import Any

from petabatch.arguments import checked
from petabatch.connections import Conv, Identity, Transpose
from petabatch.layers import Input, Linear
from petabatch.spec.network import Network
from petabatch.spec.parts import Layer


@checked()
def sparse_coding(image: Input, code: Layer, dictionary: Conv, **others: Any) -> Network:
    """Return the standard network: image -> error -> code -> recon -> error.

    Parameters
    ----------
    image
        The input layer, which is named `image`.
    code
        The code, named as `dictionary.pre` says.
    dictionary
        From the code to `recon`, which is its `post`; `drive`, its transpose, leads from the error to the
        code.
    others
        The other tables of the network: `run`, `probes`, `output`, ...

    Returns
    -------
    Network
        Not yet checked: `run` and others do that.

    Raises
    ------
    TableError
        If one of the tables is invalid.

    Examples
    --------
    >>> network = petabatch.sparse_coding(
    ...     petabatch.layers.Input(shape=(8, 8, 1), source={"type": "bars"}),
    ...     petabatch.layers.LCA(shape=(1, 1, 20), threshold=0.5),
    ...     petabatch.connections.Conv(pre="V1", post="recon", patch=(8, 8), init={"type": "gaussian"}),
    ...     run={"batch": 4, "display": 50, "displays": 2},
    ... )
    >>> list(network.layers)
    ['image', 'error', 'V1', 'recon']
    """
    return Network(
        layers={
            "image": image,
            "error": Linear(shape=image.shape),
            dictionary.pre: code,
            "recon": Linear(shape=image.shape),
        },
        connections={
            "image_to_error": Identity(pre="image", post="error"),
            "recon_to_error": Identity(pre="recon", post="error", channel="inh", feedback=True),
            "dictionary": dictionary,
            "drive": Transpose(pre="error", post=dictionary.pre, of="dictionary"),
        },
        **others,
    )

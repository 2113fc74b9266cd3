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
    """Return image -> error -> code -> recon -> error; `others` are the other tables of the network.

    The code is named as `dictionary.pre` says; `dictionary.post` is `recon`. `drive` is the transpose of
    `dictionary`, from the error to the code.
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

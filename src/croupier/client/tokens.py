"""How an app gets a blind token from its issuer: who issued it cannot tell later that it was this one.

The app sends the request where its issuer is, with whatever login that has; `Client.play` shows the token.
"""

from __future__ import annotations

from croupier.checks import InvalidParameter
from croupier.client.device import Joined
from croupier.messages.blind_tokens import TokenRequest, challenge, request
from croupier.messages.signing import BadSignature, from_text

__all__ = ["TokenRequest", "token_request"]


def token_request(joined: Joined, issuer: bytes | str | None = None) -> TokenRequest:
    """Begin a token for an experiment that admits by tokens, of the issuer's key that both servers signed.

    An app that knows the `issuer`'s key, as bytes or as text, gives it too: then not even both servers and the issuer
    together can have users with keys of their own.

    >>> joined = client.join("onboarding")  # doctest: +SKIP
    >>> asked = token_request(joined)  # doctest: +SKIP
    >>> answer = httpx2.post(ISSUER, content=asked.body, headers=asked.headers | login)  # doctest: +SKIP
    >>> turn = client.play("onboarding", ticket=asked.finish(answer.content))  # doctest: +SKIP
    """
    configuration = joined.configuration
    kind, key = configuration.admission.kind, configuration.admission.issuer
    if kind != "tokens" or key is None:
        raise InvalidParameter("experiment", joined.name, f"one that admits by tokens, and it admits {kind}")
    if issuer is not None and key != (issuer if isinstance(issuer, bytes) else from_text("issuer", issuer)):
        raise BadSignature(f"{joined.name} names another issuer's key than this app knows")
    return request(key, challenge(key, joined.name, configuration.keys["front"].verify))

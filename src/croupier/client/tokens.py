"""How an app gets a blind token from its issuer: who issued it cannot tell later that it was this one.

The app sends the request where its issuer is, with whatever login that has; `Client.play` shows the token.
"""

from __future__ import annotations

from croupier.checks import InvalidParameter
from croupier.client.device import Joined
from croupier.messages.blind_tokens import TokenRequest, challenge, request

__all__ = ["TokenRequest", "token_request"]


def token_request(joined: Joined) -> TokenRequest:
    """Begin a token for an experiment that admits by tokens, of the issuer's key that both servers signed.

    >>> joined = client.join("onboarding")  # doctest: +SKIP
    >>> asked = token_request(joined)  # doctest: +SKIP
    >>> answer = httpx.post(ISSUER, content=asked.body, headers=asked.headers | login)  # doctest: +SKIP
    >>> turn = client.play("onboarding", ticket=asked.finish(answer.content))  # doctest: +SKIP
    """
    configuration = joined.configuration
    kind, issuer = configuration.admission.kind, configuration.admission.issuer
    if kind != "tokens" or issuer is None:
        raise InvalidParameter("experiment", joined.name, f"one that admits by tokens, and it admits {kind}")
    return request(issuer, challenge(issuer, joined.name, configuration.keys["front"].verify))

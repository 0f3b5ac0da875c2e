"""What a device refuses by itself: every limit, its default, and the sentence that says so."""

from dataclasses import replace

import pytest

from cases.client import Server, answer, both_signed, configuration, device, drive, offer
from croupier.checks import InvalidParameter
from croupier.client import AsyncClient, BeyondLimits, Client, Limits
from croupier.messages.admission import Admission
from croupier.protocols import shuffled_laplace

ANALYZER, FRONT = Server.make(), Server.make()
FOUND = configuration(ANALYZER, FRONT)
TICKETS = Admission("tickets", bytes(32))


def with_keys(**same):
    """Both servers with one key of a kind."""
    one, other = ANALYZER.public, FRONT.public
    return replace(FOUND, keys={"analyzer": one, "front": replace(other, **{k: getattr(one, k) for k in same})})


def with_privacy(**changes):
    return replace(FOUND, privacy=replace(FOUND.privacy, **changes))


def with_recipe(**changes):
    return replace(FOUND, recipe=FOUND.recipe | changes)


def at(analyzer="https://analyzer.test", front="https://front.test"):
    return replace(FOUND, urls={"analyzer": analyzer, "front": front})


def test_the_defaults_accept_an_experiment_that_is_made_well():
    Limits().check(FOUND)
    Limits().check(replace(FOUND, admission=TICKETS))


BEYOND_DEFAULTS = {
    "epsilon": (with_privacy(epsilon=2.01), "ε = 2.01 is above this device's 2", {"epsilon": 2.01}),
    "delta": (with_privacy(delta=1.1e-5), "δ = 1.1e-05 is above this device's 1e-05", {"delta": 1.1e-5}),
    "users": (with_recipe(smallest=31), "batches of 31 users are smaller than this device's 32", {"users": 31}),
    "honest_fraction": (
        with_privacy(honest_fraction=0.91),
        "rests on a share of 0.91 honest users, and this device relies on 0.9 at most",
        {"honest_fraction": 1.0},
    ),
    "longest_period": (
        with_privacy(period=366 * 86_400 + 1),
        "period of 31622401 s is longer than this device's 31622400",
        {"longest_period": 400 * 86_400},
    ),
    "front_noise": (with_recipe(front_noise=False), "no server adds noise of its own", {"front_noise": False}),
    "shared verify": (with_keys(verify=True), r"both servers have one key \(verify\)", {"shared_keys": True}),
    "shared seal": (with_keys(seal=True), r"both servers have one key \(seal\)", {"shared_keys": True}),
    "plain_http of the front": (
        at(front="http://front.test"),
        "http://front.test is plain http beyond this machine",
        {"plain_http": True},
    ),
    "plain_http of the analyzer": (
        at(analyzer="http://192.168.0.1:80"),
        "http://192.168.0.1:80 is plain http beyond this machine",
        {"plain_http": True},
    ),
}


@pytest.mark.parametrize("limit", BEYOND_DEFAULTS)
def test_what_the_defaults_refuse_is_accepted_only_when_the_app_says_so(limit):
    found, reason, allowed = BEYOND_DEFAULTS[limit]
    with pytest.raises(BeyondLimits, match=reason):
        Limits().check(found)
    Limits(**allowed).check(found)


@pytest.mark.parametrize(
    ("limits", "found", "reason"),
    [
        (Limits(epsilon=0.5), FOUND, "ε = 1 is above this device's 0.5"),
        (Limits(delta=1e-15), FOUND, "δ"),
        (Limits(users=41), FOUND, "batches of 40 users are smaller than this device's 41"),
        (Limits(honest_fraction=0.8), FOUND, "rests on a share of 0.9 honest users"),
        (
            Limits(suites=("mlkem768-x25519-aes128gcm",)),
            FOUND,
            "sealed by x25519-aes128gcm, and this device accepts mlkem768-x25519-aes128gcm",
        ),
        (
            Limits(trust=("two-servers", "nobody")),
            FOUND,
            "trusts shuffler, and this device accepts two-servers or nobody",
        ),
        (Limits(admission=("tickets",)), FOUND, "admits everybody, and this device accepts tickets"),
        (
            Limits(admission=("everybody",)),
            replace(FOUND, admission=TICKETS),
            "admits tickets, and this device accepts everybody",
        ),
    ],
)
def test_a_device_has_limits_of_its_own(limits, found, reason):
    with pytest.raises(BeyondLimits, match=reason):
        limits.check(found)


def test_a_recipe_that_says_nothing_of_the_fronts_noise_is_taken_for_none():
    silent = object.__new__(type(FOUND))
    silent.__dict__.update(FOUND.__dict__ | {"recipe": {k: v for k, v in FOUND.recipe.items() if k != "front_noise"}})
    for found in (silent, with_recipe(front_noise=False)):
        with pytest.raises(BeyondLimits, match="no server adds noise"):
            Limits().check(found)


@pytest.mark.parametrize(
    "url",
    [
        "https://analyzer.example",
        "http://127.0.0.1:8400",
        "http://127.1.2.3",
        "http://[::1]:8400",
        "http://localhost:8400",
        "http://LOCALHOST",
    ],
)
def test_addresses_that_nobody_else_reads_along_are_accepted(url):
    Limits().check_address(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://analyzer.example",
        "http://10.0.0.1",
        "http://[::2]",
        "http://localhost.example",
        "http://127.0.0.1.example",
        "http://127.0.0.1@example.com",
        "http://localhost:80@example.com",
        "http://128.0.0.1",
        "http://0.0.0.0",
        "http://",
        "http://[",
        "HTTPS://analyzer.example",
        "ftp://127.0.0.2.example",
    ],
)
def test_plain_http_beyond_this_machine_is_refused_also_for_the_apps_own_analyzer(url):
    with pytest.raises(BeyondLimits, match="plain http beyond this machine, and this device accepts https only"):
        Limits().check_address(url)
    Limits(plain_http=True).check_address(url)
    if url.startswith("http://"):
        for kind in (Client, AsyncClient):
            with pytest.raises(BeyondLimits, match="plain http beyond this machine"):
                kind(url)
            kind(url, limits=Limits(plain_http=True))


def test_a_ticket_never_goes_over_plain_http_beyond_this_machine():
    plain = both_signed(at(front="http://front.test").statement(), ANALYZER, FRONT)
    steps = device().play("colours", ticket=bytes(88))
    steps.send(None)
    with pytest.raises(BeyondLimits, match="plain http"):
        steps.send(answer(200, plain.to_dict()))
    # Nor when the experiment was joined by somebody with other limits, or an offer leads to such a revision.
    own = device(Limits(plain_http=True))
    drive(own.join("colours"), answer(200, plain.to_dict()))
    own.limits = Limits()
    with pytest.raises(BeyondLimits, match="plain http"):
        drive(own.play("colours", ticket=bytes(88)))


def test_a_batch_that_is_smaller_than_the_recipe_says_is_refused():
    small = offer(both_signed(FOUND.statement(), ANALYZER, FRONT), shuffled_laplace(epsilon=1.0).plan(users=31))
    with pytest.raises(BeyondLimits, match="a batch of 31 users is smaller than this device's 32"):
        Limits().check_offer(small)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 0),
        ("delta", 1.0),
        ("users", 0),
        ("honest_fraction", 0.0),
        ("epsilon_per_period", -1.0),
        ("delta_per_period", 1.0),
        ("shortest_period", 0),
        ("longest_period", 60),
        ("suites", ()),
        ("suites", "x25519-aes128gcm"),
        ("suites", ("rot13",)),
        ("trust", ("somebody",)),
        ("admission", ()),
        ("admission", ("friends",)),
        ("front_noise", 1),
        ("shared_keys", None),
        ("plain_http", "no"),
    ],
)
def test_a_limit_that_makes_no_sense_is_named(name, value):
    with pytest.raises(InvalidParameter, match=name):
        Limits(**{name: value})


def test_every_default_has_been_tested_here():
    told = {name for _, _, allowed in BEYOND_DEFAULTS.values() for name in allowed}
    # The budget and the shortest period are the account's, and what is accepted by default is accepted above.
    others = {"epsilon_per_period", "delta_per_period", "shortest_period", "suites", "admission", "trust"}
    assert told | others == set(Limits.__dataclass_fields__)

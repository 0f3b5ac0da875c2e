"""Every policy by name: the papers' own, the baselines without privacy, and croupier's own."""

from __future__ import annotations

from croupier.bandits.builders import (
    batched,
    by_index,
    dp_thompson,
    gaussian_noise,
    half_noise,
    kl_ucb,
    laplace_noise,
    local_noise,
    plain_elimination,
    sdp_ae,
    skellam_noise,
    thompson,
    ucb1,
    uniform,
    vb_sdp_ae,
)
from croupier.bandits.entry import Entry
from croupier.bandits.in_blocks import (
    ConcurrentElimination,
    ConcurrentIMED,
    ConcurrentKLUCB,
    TopTwo,
    in_blocks,
)
from croupier.bandits.index import IMED, KLUCB
from croupier.bandits.split import Split
from croupier.registry import Registry, instances

_OWN: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("dp-klucb", "DP-KLUCB, distributed", "devices", "laplace", "after [AWHOIB25]", by_index(KLUCB), True),
        Entry("dp-imed", "DP-IMED, distributed", "devices", "laplace", "after [AWHOIB25]", by_index(IMED), True),
        Entry("dp-thompson", "Thompson sampling", "devices", "laplace", "after [Tho33]", dp_thompson, True),
        *(
            Entry(name, title, "devices", "laplace", paper, in_blocks(kind), True, True)
            for name, title, paper, kind in (
                ("split", "A/B/n test in blocks", "croupier", Split),
                ("concurrent-elimination", "elimination in blocks", "croupier", ConcurrentElimination),
                ("dp-top-two", "top two in blocks", "after [JA25]", TopTwo),
                ("concurrent-klucb", "DP-KLUCB in blocks", "after [AWHOIB25]", ConcurrentKLUCB),
                ("concurrent-imed", "DP-IMED in blocks", "after [AWHOIB25]", ConcurrentIMED),
            )
        ),
        Entry("sdp-ae", "SDP-AE", "shuffler", "shuffled-bits", "[TKMS21] Alg. 1", sdp_ae),
        Entry("vb-sdp-ae", "VB-SDP-AE", "shuffler", "shuffled-bits", "[TKMS21] Alg. 2", vb_sdp_ae),
        Entry("dist-dp-se", "Dist-DP-SE", "devices", "laplace", "[CZ23] Thm 1", batched(laplace_noise)),
        Entry("dist-rdp-se", "Dist-RDP-SE", "devices", "skellam", "[CZ23] Thm 2", batched(skellam_noise)),
        Entry("dist-zcdp-se", "Dist-CDP-SE", "devices", "discrete-gaussian", "[CZ23] Thm 4", batched(gaussian_noise)),
        Entry(
            "shuffle-dp-se",
            "Dist-DP-SE, shuffled",
            "shuffler",
            "shuffled-laplace",
            "[BBGN20], for [CZ23] Thm 3",
            batched(half_noise),
        ),
        Entry("central-dp-se", "CDP-SE", "analyzer", "central-laplace", "[CZ23] Thm 5", batched(laplace_noise)),
        Entry("local-dp-se", "LDP-SE", "nobody", "local-laplace", "[CZ23] Thm 6", batched(local_noise)),
        Entry("elimination", "successive elimination", "none", None, "[EMM06], a baseline", plain_elimination),
        Entry("kl-ucb", "KL-UCB", "none", None, "[GC11], a baseline", kl_ucb),
        Entry("ucb1", "UCB1", "none", None, "[ACF02], a baseline", ucb1),
        Entry("thompson", "Thompson sampling", "none", None, "[Tho33], a baseline", thompson),
        Entry("uniform", "uniform play", "none", None, "a baseline", uniform),
    )
}

POLICIES: Registry[Entry] = Registry("policy", "croupier.policies", _OWN, instances(Entry, "an Entry"))
"""Every policy by name. DP-SE, a baseline with continuous noise, is in `croupier.simulation`."""

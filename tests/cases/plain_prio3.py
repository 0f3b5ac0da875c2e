"""A plain reading of the draft: one report, one number at a time, polynomials by Lagrange's formula, nothing clever.

It shares no line with `croupier.validity`. A circuit is a function of the measurement, the joint randomness, the number
of shares and a gadget to call, and returns the outputs that must be zero; whoever proves or queries passes a gadget
that remembers what it was called with.
"""

from math import prod

from Crypto.Hash import TurboSHAKE128

SMALL, LARGE = 2**32 * 4294967295 + 1, 2**66 * 4611686018427387897 + 1


def bits_of(value, most):
    """The encoding of a number in [0, most]: bits with weights 1, 2, 4, …, and a last weight that completes `most`."""
    count = most.bit_length()
    low = 2 ** (count - 1) - 1
    last = 0 if value <= low else 1
    rest = value - last * (most - low)
    return [(rest >> i) & 1 for i in range(count - 1)] + [last]


def number_of(bits, most, p):
    count = most.bit_length()
    weights = [2**i for i in range(count - 1)] + [most - 2 ** (count - 1) + 1]
    return sum(w * b for w, b in zip(weights, bits, strict=True)) % p


class Count:
    ID, p, proofs, arity, calls, joint, outputs = 1, SMALL, 1, 2, 1, 0, 1
    length = 1

    def encode(self, measurement):
        return [measurement]

    def gadget(self, x):
        return x[0] * x[1]

    def evaluate(self, x, joint, shares, call):
        return [call([x[0], x[0]]) - x[0]]

    def truncate(self, x):
        return x


class Sum:
    ID, p, proofs, arity, joint = 2, SMALL, 1, 1, 0

    def __init__(self, most):
        self.most = most
        self.length = self.calls = self.outputs = most.bit_length()

    def encode(self, measurement):
        return bits_of(measurement, self.most)

    def gadget(self, x):
        return x[0] ** 2 - x[0]

    def evaluate(self, x, joint, shares, call):
        return [call([bit]) for bit in x]

    def truncate(self, x):
        return [number_of(x, self.most, self.p)]


class Chunks:
    """What SumVec and Histogram have in common: a sum of products over chunks of bits."""

    def chunks(self, x, joint, shares, call):
        total, part = 0, pow(shares, -1, self.p)
        for i in range(self.calls):
            inputs = []
            for j in range(self.chunk):
                place = i * self.chunk + j
                element = x[place] if place < len(x) else 0
                inputs += [pow(joint[i], j + 1, self.p) * element, element - part]
            total += call(inputs)
        return total

    def gadget(self, x):
        return sum(x[2 * j] * x[2 * j + 1] for j in range(self.chunk))

    def shape(self, chunk):
        self.chunk, self.arity = chunk, 2 * chunk
        self.calls = self.joint = (self.length + chunk - 1) // chunk


class SumVec(Chunks):
    outputs = 1

    def __init__(self, count, most, chunk, proofs=1):
        self.ID, self.p = (3, LARGE) if proofs == 1 else (0xFFFFFFFF, SMALL)
        self.proofs, self.count, self.most = proofs, count, most
        self.length = count * most.bit_length()
        self.shape(chunk)

    def encode(self, measurement):
        return [bit for one in measurement for bit in bits_of(one, self.most)]

    def evaluate(self, x, joint, shares, call):
        return [self.chunks(x, joint, shares, call)]

    def truncate(self, x):
        step = self.most.bit_length()
        return [number_of(x[i * step : (i + 1) * step], self.most, self.p) for i in range(self.count)]


class Ranges(SumVec):
    """Numbers with ranges of their own, which is no type of the draft."""

    def __init__(self, ranges, chunk):
        self.ID, self.p, self.proofs, self.ranges = 0xFFFFCC02, LARGE, 1, ranges
        self.length = sum(most.bit_length() for most in ranges)
        self.shape(chunk)

    def encode(self, measurement):
        return [bit for one, most in zip(measurement, self.ranges, strict=True) for bit in bits_of(one, most)]

    def truncate(self, x):
        found, rest = [], list(x)
        for most in self.ranges:
            own, rest = rest[: most.bit_length()], rest[most.bit_length() :]
            found.append(number_of(own, most, self.p))
        return found


class Histogram(Chunks):
    ID, p, proofs, outputs = 4, LARGE, 1, 2

    def __init__(self, length, chunk):
        self.length = length
        self.shape(chunk)

    def encode(self, measurement):
        return [1 if place == measurement else 0 for place in range(self.length)]

    def evaluate(self, x, joint, shares, call):
        return [self.chunks(x, joint, shares, call), sum(x) - pow(shares, -1, self.p)]

    def truncate(self, x):
        return x


def root(p, order):
    found = pow(7, (p - 1) // order, p)
    assert pow(found, order // 2, p) == p - 1
    return found


def through(points, values, x, p):
    """The value at x of the polynomial of least degree through these points."""
    total = 0
    for i, (at, value) in enumerate(zip(points, values, strict=True)):
        others = points[:i] + points[i + 1 :]
        total += value * prod(x - one for one in others) * pow(prod(at - one for one in others), -1, p)
    return total % p


def wire_points(circuit):
    """The roots of unity where wire polynomials are known: a power of two, above the number of calls."""
    n = 1
    while n < 1 + circuit.calls:
        n *= 2
    w = root(circuit.p, n)
    return [pow(w, k, circuit.p) for k in range(n)]


def gadget_points(circuit):
    """Those where the gadget polynomial is: one less than twice as many, since its degree is twice theirs."""
    n = 2 * len(wire_points(circuit))
    w = root(circuit.p, n)
    return [pow(w, k, circuit.p) for k in range(n - 1)]


def wires_of(starts, calls, n):
    """The values of each wire polynomial, from its start and what the gadget was called with."""
    return [[start, *(call[j] for call in calls), *[0] * (n - 1 - len(calls))] for j, start in enumerate(starts)]


def prove(circuit, x, starts, joint):
    p, calls, points = circuit.p, [], wire_points(circuit)

    def record(inputs):
        calls.append(inputs)
        return circuit.gadget(inputs)

    circuit.evaluate(x, joint, 1, record)
    wires = wires_of(starts, calls, len(points))
    return starts + [circuit.gadget([through(points, w, at, p) for w in wires]) % p for at in gadget_points(circuit)]


def query(circuit, x, proof, randomness, joint, shares):
    p, calls, points = circuit.p, [], wire_points(circuit)
    starts, values = proof[: circuit.arity], proof[circuit.arity :]

    def look_up(inputs):
        calls.append(inputs)
        return through(gadget_points(circuit), values, points[len(calls)], p)

    outputs = circuit.evaluate(x, joint, shares, look_up)
    if len(outputs) > 1:
        outputs = [sum(r * out for r, out in zip(randomness, outputs, strict=False))]
    at = randomness[-1]
    assert pow(at, len(points), p) != 1
    wires = [through(points, w, at, p) for w in wires_of(starts, calls, len(points))]
    return [outputs[0] % p, *wires, through(gadget_points(circuit), values, at, p)]


def decide(circuit, verifier):
    return verifier[0] == 0 and circuit.gadget(verifier[1:-1]) % circuit.p == verifier[-1]


def size(circuit):
    return 8 if circuit.p == SMALL else 16


def encode(circuit, numbers):
    return b"".join(number.to_bytes(size(circuit), "little") for number in numbers)


def decode(circuit, text):
    step = size(circuit)
    numbers = [int.from_bytes(text[i : i + step], "little") for i in range(0, len(text), step)]
    assert all(number < circuit.p for number in numbers)
    return numbers


def xof(circuit, usage, ctx, seed, binder):
    tag = bytes([18, 0]) + circuit.ID.to_bytes(4, "big") + usage.to_bytes(2, "big") + ctx
    hashed = TurboSHAKE128.new(domain=1)
    for part in (len(tag).to_bytes(2, "little"), tag, bytes([len(seed)]), seed, binder):
        hashed.update(part)
    return hashed


def vector(circuit, usage, ctx, seed, binder, length):
    output, found = xof(circuit, usage, ctx, seed, binder), []
    while len(found) < length:
        number = int.from_bytes(output.read(size(circuit)), "little")
        if number < circuit.p:
            found.append(number)
    return found


def proof_length(circuit):
    return circuit.arity + len(gadget_points(circuit))


def helper_numbers(circuit, ctx, server, seed):
    return vector(circuit, 1, ctx, seed, bytes([server]), circuit.length)


def helper_proofs(circuit, ctx, server, seed):
    binder = bytes([circuit.proofs, server])
    return vector(circuit, 2, ctx, seed, binder, proof_length(circuit) * circuit.proofs)


def part_of(circuit, ctx, server, blind, nonce, numbers):
    return xof(circuit, 7, ctx, blind, bytes([server]) + nonce + encode(circuit, numbers)).read(32)


def joint_seed(circuit, ctx, parts):
    return xof(circuit, 6, ctx, bytes(32), b"".join(parts)).read(32)


def joint_vector(circuit, ctx, seed):
    return vector(circuit, 3, ctx, seed, bytes([circuit.proofs]), circuit.joint * circuit.proofs)


def shard(circuit, numbers, nonce, ctx, rand, shares):
    """From encoded numbers, which may be invalid: the public share and all input shares."""
    p, seeds = circuit.p, [rand[i : i + 32] for i in range(0, len(rand), 32)]
    if circuit.joint:
        helpers, blinds = seeds[0 : 2 * shares - 2 : 2], [seeds[2 * shares - 2], *seeds[1 : 2 * shares - 2 : 2]]
    else:
        helpers, blinds = seeds[: shares - 1], [b""] * shares
    parts_of_numbers = [helper_numbers(circuit, ctx, i + 1, seed) for i, seed in enumerate(helpers)]
    leader = [
        (number - sum(part)) % p for number, part in zip(numbers, zip(*parts_of_numbers, strict=True), strict=True)
    ]
    parts, joint = [], []
    if circuit.joint:
        every = [leader, *parts_of_numbers]
        parts = [part_of(circuit, ctx, i, blinds[i], nonce, share) for i, share in enumerate(every)]
        joint = joint_vector(circuit, ctx, joint_seed(circuit, ctx, parts))
    starts = vector(circuit, 4, ctx, seeds[-1], bytes([circuit.proofs]), circuit.arity * circuit.proofs)
    proofs = []
    for i in range(circuit.proofs):
        begin = starts[i * circuit.arity : (i + 1) * circuit.arity]
        proofs += prove(circuit, numbers, begin, joint[i * circuit.joint : (i + 1) * circuit.joint])
    for i, seed in enumerate(helpers):
        proofs = [(a - b) % p for a, b in zip(proofs, helper_proofs(circuit, ctx, i + 1, seed), strict=True)]
    first = encode(circuit, leader) + encode(circuit, proofs) + blinds[0]
    return [b"".join(parts), first, *(seed + blind for seed, blind in zip(helpers, blinds[1:], strict=True))]


def verifier_share(circuit, server, key, nonce, ctx, public, share, shares):
    """The output share, the verifier share and the joint seed, of one server."""
    if server == 0:
        end = size(circuit) * circuit.length
        stop = end + size(circuit) * proof_length(circuit) * circuit.proofs
        numbers, proofs, blind = decode(circuit, share[:end]), decode(circuit, share[end:stop]), share[stop:]
    else:
        numbers, blind = helper_numbers(circuit, ctx, server, share[:32]), share[32:]
        proofs = helper_proofs(circuit, ctx, server, share[:32])
    joint, part, seed = [], b"", b""
    if circuit.joint:
        parts = [public[32 * i : 32 * i + 32] for i in range(shares)]
        parts[server] = part = part_of(circuit, ctx, server, blind, nonce, numbers)
        seed = joint_seed(circuit, ctx, parts)
        joint = joint_vector(circuit, ctx, seed)
    asked = 1 + (circuit.outputs if circuit.outputs > 1 else 0)
    randomness = vector(circuit, 5, ctx, key, bytes([circuit.proofs]) + nonce, asked * circuit.proofs)
    verifiers, each = [], proof_length(circuit)
    for i in range(circuit.proofs):
        verifiers += query(
            circuit,
            numbers,
            proofs[i * each : (i + 1) * each],
            randomness[i * asked : (i + 1) * asked],
            joint[i * circuit.joint : (i + 1) * circuit.joint],
            shares,
        )
    return encode(circuit, circuit.truncate(numbers)), encode(circuit, verifiers) + part, seed


def message(circuit, ctx, verifier_shares):
    """The message of one report, or None if it is refused."""
    each = circuit.arity + 2
    end = size(circuit) * each * circuit.proofs
    numbers = [decode(circuit, share[:end]) for share in verifier_shares]
    total = [sum(column) % circuit.p for column in zip(*numbers, strict=True)]
    if not all(decide(circuit, total[i * each : (i + 1) * each]) for i in range(circuit.proofs)):
        return None
    return joint_seed(circuit, ctx, [share[end:] for share in verifier_shares]) if circuit.joint else b""

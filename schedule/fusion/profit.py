"""Does it pay to make these loops one kernel? Pure functions over bytes moved; they never decide what is correct."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from longhand.lower.ir import PRIMITIVES, Buffer, Cost, Load, Nest, Pointwise, Reduce, Size, Step, Store
from longhand.schedule.bodies import domains_of, loads, reduced_axes, sizes_of, stores
from longhand.schedule.fusion.legality import depends_on_reduction, reduces_columns
from longhand.schedule.fusion.writes_at_positions import write_at_the_same_positions
from longhand.schedule.sizes import product, rank

Hint = Callable[[Size], int]  # the size at capture

SHARED_PART = 5  # side by side only if they save at least a fifth of what they move
REPEATS = 4  # an expensive value may be computed this often for each time it was before
SHORT_OF_ROWS = 64
LONG_ROW = 32768
SHORT_COLUMN = 1024
MOST_REPEATED_VALUES = 48
# The same where bytes decide: the derivatives of a relu and the batch norm before it, for three readers.
MOST_VALUES_FOR_BYTES = 64
MOST_FREE_VALUES = 8
MOST_INDEX_VALUES = 24  # of what is made of indices alone: a mask costs less than to load it


def traffic(nest: Nest, buffers: Mapping[str, Buffer], hint: Hint) -> int:
    """Bytes that a nest reads and writes, each element once."""
    return sum(sum(touched.values()) for touched in _touched(nest, buffers, hint))


def bytes_read(nest: Nest, buffers: Mapping[str, Buffer], hint: Hint) -> dict[str, int]:
    """By buffer: the bytes that a nest reads of it, each element once."""
    return _touched(nest, buffers, hint)[0]


def _touched(nest: Nest, buffers: Mapping[str, Buffer], hint: Hint) -> tuple[dict[str, int], dict[str, int]]:
    """By buffer: the bytes that a nest reads of it, and those that it writes."""
    sizes = sizes_of(nest)
    read: dict[str, int] = {}
    written: dict[str, int] = {}
    seen: set[object] = set()
    for value in nest.body:
        if isinstance(value, Load | Store) and (type(value), value.buffer, value.index) not in seen:
            seen.add((type(value), value.buffer, value.index))
            into = read if isinstance(value, Load) else written
            into[value.buffer] = into.get(value.buffer, 0) + _elements(value, sizes, hint)
    for counted in (read, written):
        for buffer, elements in counted.items():
            counted[buffer] = min(elements, whole(buffers[buffer], hint)) * buffers[buffer].dtype.itemsize
    return read, written


def whole(buffer: Buffer, hint: Hint) -> int:
    """The number of elements of a buffer."""
    return hint(product(buffer.shape))


_OF_ITS_OWN = 2  # the last step of a nest, and its store


def _does_the_same_first(first: Nest, second: Nest, merged: Nest) -> bool:
    """Whether nests do the same but for their last step: cos and sin of one angle, which is made once."""
    longest = max(len(first.body), len(second.body))
    n_shared = len(first.body) + len(second.body) - len(merged.body)
    return n_shared > _OF_ITS_OWN and len(merged.body) <= longest + _OF_ITS_OWN


def merge_problem(
    first: Nest, second: Nest, merged: Nest, buffers: Mapping[str, Buffer], hint: Hint
) -> str | None:
    """Why one kernel would not be faster than two, or None."""
    apart = traffic(first, buffers, hint) + traffic(second, buffers, hint)
    saved = apart - traffic(merged, buffers, hint)
    if saved <= 0:
        return "no bytes are saved"
    made = {store.buffer for _, store in stores(first)}
    is_handed = any(load.buffer in made for _, load in loads(second))
    rides_along = saved > 0 and (
        _is_copy(first) or _is_copy(second) or write_at_the_same_positions(first, second)
    )
    rides_along = rides_along or _does_the_same_first(first, second, merged)
    if not (is_handed or rides_along) and saved * SHARED_PART < apart:
        return "they share too little of what they read"
    if _repeated_work(merged, hint) > _repeated_work(first, hint) + _repeated_work(second, hint):
        return "an expensive value would be computed again and again"
    uncoalesced = _uncoalesced_accesses(merged, buffers)
    if uncoalesced > _uncoalesced_accesses(first, buffers) + _uncoalesced_accesses(second, buffers):
        return "a row kernel would read columns"
    if reduces_columns(merged, buffers):
        if not (reduces_columns(first, buffers) or reduces_columns(second, buffers)):
            return "a row kernel would read columns"
        if _cannot_split(merged, hint) and not (_cannot_split(first, hint) or _cannot_split(second, hint)):
            return "the rows of a column reduction could no longer be divided"
        if _writes_rows(merged) and not (_writes_rows(first) or _writes_rows(second)):
            return "what makes the rows may take the sums of columns along, once it is whole"
    if _has_low_occupancy(merged, hint) and not (
        _has_low_occupancy(first, hint) or _has_low_occupancy(second, hint)
    ):
        return "too few rows to keep the machine busy"
    return None


def _is_copy(nest: Nest) -> bool:
    """Whether a nest computes nothing: what reads the same anyway has it in a register, and only stores it, too."""
    return all(isinstance(value, Load | Store) for value in nest.body)


def body_signature(nest: Nest) -> tuple[str, ...]:
    """The operations of a nest in no particular order."""
    return tuple(
        sorted(
            f"{type(value).__name__} {value.op.value if isinstance(value, Pointwise | Reduce) else ''}"
            for value in nest.body
        )
    )


def absorb_problem(
    producer: Nest, buffer: str, consumer: Nest, n_readers: int, buffers: Mapping[str, Buffer], hint: Hint
) -> str | None:
    """Why it does not pay to compute `buffer` again where it is read, or None.

    Args:
        producer: Makes the buffer.
        buffer: Which.
        consumer: Reads it.
        n_readers: How many steps read it in all.
        buffers: Of the program.
        hint: Sizes at capture.
    """
    heavy = any(
        isinstance(value, Pointwise) and PRIMITIVES[value.op].cost is Cost.HEAVY for value in producer.body
    )
    places = {load.index for _, load in loads(consumer) if load.buffer == buffer}
    uses = len(places) + n_readers - 1
    sizes = sizes_of(producer)
    made = max((hint(_volume(s, sizes)) for _, s in stores(producer) if s.buffer == buffer), default=1)
    reading = [load for _, load in loads(consumer) if load.buffer == buffer]
    read = max((hint(_volume(load, sizes_of(consumer))) for load in reading), default=1)
    if heavy and (uses > 2 or read > REPEATS * made):
        return "an expensive value would be computed again and again"
    taken = sum(_bytes(load, producer, buffers, hint) for _, load in loads(producer))
    stored = made * buffers[buffer].dtype.itemsize
    if uses > 1 and uses * taken > taken + (1 + uses) * stored:
        return "computing it again for each reader would move more bytes"
    if uses > 1 and (uses * len(producer.body) > MOST_REPEATED_VALUES or n_readers > 2):
        return "it would be computed again for each reader"
    return None


def recomputing_problem(
    producer: Nest,
    readers: Sequence[Nest],
    instead: Sequence[Nest],
    absorbed: Sequence[Nest],
    buffers: Mapping[str, Buffer],
    hint: Hint,
) -> str | None:
    """Why it does not pay that each reader computes what a producer makes, or None.

    Nor does it where the producer reads columns and the readers are rows: it writes once what lies as they read it.

    Args:
        producer: Makes it.
        readers: All that read it, as they are.
        instead: A reader that makes it on its way, for itself and for the others; and those.
        absorbed: All readers, each computing it.
        buffers: Of the program.
        hint: Sizes at capture.
    """
    if len(absorbed) * len(producer.body) > MOST_VALUES_FOR_BYTES:
        return "it would be computed again for each reader"
    made = max(_elements(store, sizes_of(producer), hint) for _, store in stores(producer))
    pairs = [*zip(absorbed, readers, strict=True)]
    if any(splits_columns(reader, nest, buffers) for nest, reader in pairs):
        return "a sum of columns would walk pieces of them"
    if _transposes(producer, hint) and any(
        _turned_to_columns(nest, reader, buffers, hint, made // 2) for nest, reader in pairs
    ):
        return "row kernels would read columns"
    apart, again = (sum(traffic(nest, buffers, hint) for nest in nests) for nests in (instead, absorbed))
    return "computing it again for each reader would move more bytes" if again > apart else None


def besides_problem(
    producer: Nest,
    rest: Nest,
    readers: Sequence[Nest],
    absorbed: Sequence[Nest],
    buffers: Mapping[str, Buffer],
    hint: Hint,
) -> str | None:
    """Why it does not pay that readers compute what a producer makes besides the rest, or None.

    Args:
        producer: Makes all of it.
        rest: What it still has to make.
        readers: Of what it makes besides, as they are.
        absorbed: The same, each computing it.
        buffers: Of the program.
        hint: Sizes at capture.
    """
    pairs = [*zip(readers, absorbed, strict=True)]
    again = sum(len(after.body) - len(before.body) for before, after in pairs)
    if again > MOST_REPEATED_VALUES or any(_heavy(after) > _heavy(before) for before, after in pairs):
        return "it would be computed again for each reader"
    if any(_turned_to_columns(after, before, buffers, hint) for before, after in pairs):
        return "row kernels would read columns"
    if any(splits_columns(before, after, buffers) for before, after in pairs):
        return "a sum of columns would walk pieces of them"
    moved = sum(traffic(nest, buffers, hint) for nest in (rest, *absorbed))
    if moved >= sum(traffic(nest, buffers, hint) for nest in (producer, *readers)):
        return "computing it again for each reader would move more bytes"
    return None


def _heavy(nest: Nest) -> int:
    """How many expensive values a nest computes."""
    return sum(isinstance(v, Pointwise) and PRIMITIVES[v.op].cost is Cost.HEAVY for v in nest.body)


def repeats_work(producer: Nest, consumer: Nest, joined: Nest, hint: Hint) -> bool:
    """Whether expensive values are computed over and over in `joined` that were not in the two apart."""
    return _repeated_work(joined, hint) > _repeated_work(producer, hint) + _repeated_work(consumer, hint)


def splits_columns(consumer: Nest, joined: Nest, buffers: Mapping[str, Buffer]) -> bool:
    """Whether a sum of columns would walk pieces of them, pair by pair: a few bytes of each row at a time."""
    return reduces_columns(consumer, buffers) and _narrowest(joined) < _narrowest(consumer)


def _narrowest(nest: Nest) -> int:
    """The shortest of the axes along which results lie side by side."""
    sizes = sizes_of(nest)
    written = [store.index.axes for _, store in stores(nest) if store.index.axes]
    inner = [min(axes, key=lambda term: abs(rank(term[1])))[0] for axes in written]
    return min((rank(sizes[axis]) for axis in inner), default=1)


def takeover_problem(
    producer: Nest, consumer: Nest, joined: Nest, rest: Nest, buffers: Mapping[str, Buffer], hint: Hint
) -> str | None:
    """Why it does not pay that `joined` computes what `consumer` reads of `producer`; None if it does. `rest` stays."""
    if repeats_work(producer, consumer, joined, hint):
        return "an expensive value would be computed again and again"
    apart = traffic(producer, buffers, hint) + traffic(consumer, buffers, hint)
    if traffic(joined, buffers, hint) + traffic(rest, buffers, hint) >= apart:
        return "no bytes are saved"
    return None


def is_free(producer: Step, buffers: Mapping[str, Buffer], hint: Hint) -> bool:
    """Whether computing a producer's value again is cheaper than loading it: fills, masks, casts to a wider type."""
    if not isinstance(producer, Nest):
        return False
    most = MOST_FREE_VALUES if loads(producer) else MOST_INDEX_VALUES
    if len(producer.body) > most or any(
        isinstance(v, Pointwise) and PRIMITIVES[v.op].cost is Cost.HEAVY for v in producer.body
    ):
        return False
    if reduced_axes(producer) or any(value.index.values for _, value in loads(producer)):
        return False
    reading = len({load.buffer for _, load in loads(producer)})
    written = sum(_bytes(store, producer, buffers, hint) for _, store in stores(producer))
    read = sum(_bytes(load, producer, buffers, hint) for _, load in loads(producer))
    return reading <= 1 and 2 * read <= written


def _bytes(access: Load | Store, nest: Nest, buffers: Mapping[str, Buffer], hint: Hint) -> int:
    return _elements(access, sizes_of(nest), hint) * buffers[access.buffer].dtype.itemsize


def _volume(access: Load | Store, sizes: Mapping[str, Size]) -> Size:
    return product(sizes[axis] for axis, _ in access.index.axes)


def _elements(access: Load | Store, sizes: Mapping[str, Size], hint: Hint) -> int:
    """How many elements an access touches; a gather touches at most one for each iteration."""
    if access.index.values:
        return hint(product(sizes.values()))
    return hint(_volume(access, sizes))


def _repeated_work(nest: Nest, hint: Hint) -> int:
    """How many expensive values are computed over and over because an outer loop does not change them."""
    sizes = sizes_of(nest)
    order = list(sizes)
    rows = set(order) - reduced_axes(nest)
    axes = domains_of(nest)
    repeated = 0
    for position, value in enumerate(nest.body):
        if not (isinstance(value, Pointwise) and PRIMITIVES[value.op].cost is Cost.HEAVY):
            continue
        domain = axes[position]
        hoisted = domain == set(order[: len(domain)]) or (rows != set(order) and domain <= rows)
        if not hoisted and hint(product(sizes[axis] for axis in order if axis not in domain)) > REPEATS:
            repeated += 1
    return repeated


def _uncoalesced_accesses(nest: Nest, buffers: Mapping[str, Buffer]) -> int:
    """How many full-sized accesses of a row kernel are not contiguous along its cols."""
    return len(_columns(nest, buffers))


def _columns(nest: Nest, buffers: Mapping[str, Buffer]) -> list[Load | Store]:
    """The accesses of a row kernel that are not contiguous along its cols."""
    reduced = reduced_axes(nest)
    if not reduced or reduces_columns(nest, buffers):
        return []
    accesses = []
    for value in nest.body:
        if isinstance(value, Load | Store) and any(axis in reduced for axis, _ in value.index.axes):
            inner = min(value.index.axes, key=lambda term: abs(rank(term[1])))[0]
            if inner not in reduced and not value.index.values:
                accesses.append(value)
    return accesses


def _transposes(nest: Nest, hint: Hint) -> bool:
    """Whether the largest of what a nest reads lies along another axis than what it writes."""
    sizes = sizes_of(nest)

    def inner(access: Load | Store) -> str | None:
        terms = access.index.axes
        return min(terms, key=lambda term: abs(rank(term[1])))[0] if terms else None

    read = [load for _, load in loads(nest) if not load.index.values]
    most = max((_elements(load, sizes, hint) for load in read), default=0)
    largest = {inner(load) for load in read if _elements(load, sizes, hint) == most}
    return not largest <= {inner(store) for _, store in stores(nest)}


def _turned_to_columns(
    nest: Nest, before: Nest, buffers: Mapping[str, Buffer], hint: Hint, fewest: int = 0
) -> bool:
    """Whether a row kernel reads columns that it did not before, of so many elements or more."""
    if reduces_columns(nest, buffers) and not reduces_columns(before, buffers):
        return True
    now, then = (
        sum(_elements(access, sizes_of(one), hint) >= fewest for access in _columns(one, buffers))
        for one in (nest, before)
    )
    return now > then


def _cannot_split(nest: Nest, hint: Hint) -> bool:
    """Whether many rows must be walked again after a column reduction."""
    reduced = reduced_axes(nest)
    sizes = sizes_of(nest)
    if hint(product(sizes[axis] for axis in reduced if axis in sizes)) <= SHORT_COLUMN:
        return False
    return _walks_again(nest)


def _walks_again(nest: Nest) -> bool:
    reduced, late, axes = reduced_axes(nest), depends_on_reduction(nest.body), domains_of(nest)
    return any(late[position] and axes[position] & reduced for position in range(len(nest.body)))


def _writes_rows(nest: Nest) -> bool:
    """Whether a nest that reduces stores whole rows."""
    reduced, axes = reduced_axes(nest), domains_of(nest)
    return any(axes[position] & reduced for position, _ in stores(nest))


def _has_low_occupancy(nest: Nest, hint: Hint) -> bool:
    """Whether few long rows must be walked again after their reduction, which cannot be split among programs."""
    reduced = reduced_axes(nest)
    sizes = sizes_of(nest)
    rows = hint(product(size for axis, size in sizes.items() if axis not in reduced))
    cols = hint(product(sizes[axis] for axis in reduced if axis in sizes))
    if not reduced or rows >= SHORT_OF_ROWS or cols < LONG_ROW:
        return False
    return _writes_rows(nest) or _walks_again(nest)

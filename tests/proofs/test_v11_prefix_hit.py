"""v11.P: a drafter's cache never shortens the model's prefix hit, and never lends stale blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.proofs import glm53
from tests.proofs.glm53 import Drafter, Geometry
from tests.proofs.upstream import Upstream

if TYPE_CHECKING:
    from conftest import Sources

UTILS = "vllm/v1/core/kv_cache_utils.py"
COORDINATOR = "vllm/v1/core/kv_cache_coordinator.py"
BLOCK = 128
GEOMETRY = Geometry(BLOCK)
# Pages that are MLA pages, in blocks of 32 tokens, the unit of hashing; and pages of their own.
EXACT, ALONE = Drafter(heads=4, window=80), Drafter(heads=5, window=80)
DRAFTERS = pytest.mark.parametrize("drafter", [EXACT, ALONE], ids=["exact-fit", "stand-alone"])
LOOKAHEAD = 7

quick = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
# Prompts that share prefixes: a tree of two branches at every block.
requests = st.lists(
    st.tuples(
        st.lists(st.sampled_from("ab"), min_size=1, max_size=7),  # what each block is made of
        st.integers(1, BLOCK),  # tokens of the last one
        st.integers(1, 4),  # blocks in a chunk of prefill
    ),
    min_size=1,
    max_size=7,
)


@cache
def loaded(vllm: Sources, hits: bool) -> Upstream:
    """With the drafter's group (v11.G), and with or without v11.P."""
    files = (UTILS, COORDINATOR) if hits else (UTILS,)
    return Upstream(vllm, [edit.id for file in files for edit in vllm.edits(file)])


@dataclass
class Engine:
    """A coordinator, driven as the engine drives it, and what the drafter has written where."""

    up: Upstream
    drafter: Drafter | None
    num_blocks: int = 4000
    use_eagle: bool = True
    flagged: bool = True
    written: dict[int, dict[int, tuple[Any, ...]]] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        config = glm53.settings(GEOMETRY, max_model_len=4096, in_flight=1024)
        layers = glm53.specs(self.up, GEOMETRY, self.drafter)
        found = self.up.utils.get_kv_cache_groups(config, layers)
        memory = self.up.utils._pool_bytes_per_block(found) * self.num_blocks
        pool = self.up.utils.get_kv_cache_config_from_groups(config, found, memory)
        self.pool = self.up.utils.generate_scheduler_kv_cache_config([pool])
        if not self.flagged:
            for group in self.pool.kv_cache_groups:
                group.is_eagle_group = False
        block, self.unit = self.up.utils.resolve_kv_cache_block_sizes(self.pool, config)
        self.coordinator = self.up.coordinator.get_kv_cache_coordinator(
            self.pool, 4096, 1024, self.use_eagle, True, False, 1, 1, block, self.unit,
            num_prefill_lookahead=1,
        )  # fmt: skip

    @property
    def draft_manager(self) -> Any:
        return self.coordinator.single_type_managers[-1]

    def request(self, blocks: Sequence[str], last: int) -> Any:
        """Tokens are (block's letters so far, place): equal prefixes have equal hashes."""
        tokens = [
            ("".join(blocks[: i // BLOCK + 1]), i % BLOCK)
            for i in range((len(blocks) - 1) * BLOCK + last)
        ]
        self.count += 1
        return SimpleNamespace(
            request_id=str(self.count),
            tokens=tokens,
            num_tokens=len(tokens),
            num_prompt_tokens=len(tokens),
            num_computed_tokens=0,
            shared_prefix_boundary=0,
            block_hashes=[
                repr(tokens[end - 1]).encode()
                for end in range(self.unit, len(tokens) + 1, self.unit)
            ],
        )

    def lookup(self, request: Any) -> tuple[tuple[list[Any], ...], int]:
        blocks, length, _ = self.coordinator.find_longest_cache_hit(
            request.block_hashes, request.num_tokens - 1
        )
        return blocks, length

    def serve(self, request: Any, chunk_blocks: int) -> int:
        """Prefill a request in chunks, then free it. Returns the length of its prefix hit."""
        coordinator, name = self.coordinator, request.request_id
        blocks, hit = self.lookup(request)
        if self.drafter is not None:
            self.check_drafter(request, blocks[-1], hit)
        coordinator.allocate_new_computed_blocks(name, blocks, hit, 0)
        at = hit
        while at < request.num_tokens:
            # a chunk ends at a block of the model, the last one at the end
            end = min((at // BLOCK + chunk_blocks) * BLOCK, request.num_tokens)
            coordinator.remove_skipped_blocks(name, at)
            request.num_computed_tokens = at
            coordinator.allocate_new_blocks(name, end + LOOKAHEAD, end)
            if self.drafter is not None:
                self.write(request, at, end)
            coordinator.cache_blocks(request, end)
            at = end
        coordinator.free(name)
        coordinator.new_step_starts()
        for manager in coordinator.single_type_managers:
            getattr(manager, "cached_blocks_this_step", set()).clear()
        return hit

    def write(self, request: Any, start: int, end: int) -> None:
        """The drafter's keys and values of positions start to end: each knows its token."""
        size = self.draft_manager.block_size
        held = self.draft_manager.req_to_blocks[request.request_id]
        for position in range(start, end):
            block = held[position // size]
            assert not block.is_null
            cells = self.written.setdefault(block.block_id, {})
            cells[position % size] = request.tokens[position]

    def check_drafter(self, request: Any, blocks: list[Any], hit: int) -> None:
        """All of the window is there and is this request's, or none of it is claimed."""
        assert self.drafter is not None
        size = self.draft_manager.block_size
        assert len(blocks) * size == hit
        if all(block.is_null for block in blocks):
            return
        for position in range(max(0, hit - self.drafter.window + 1), hit):
            block = blocks[position // size]
            assert self.written[block.block_id][position % size] == request.tokens[position]

    def of_the_model(self, request: Any) -> tuple[tuple[list[Any], ...], int]:
        """The lookup that the model's own groups would give, without the drafter's."""
        coordinator = self.coordinator
        kept = coordinator.attention_groups
        coordinator.attention_groups = [
            group for group in kept if type(group.spec) is not self.up.interface.SlidingWindowSpec
        ]
        try:
            return self.lookup(request)
        finally:
            coordinator.attention_groups = kept


def prompts(found: list[tuple[list[str], int, int]]) -> list[tuple[list[str], int, int]]:
    """Every prompt twice: the second time it should be found."""
    return [prompt for prompt in found for _ in range(2)]


@DRAFTERS
@pytest.mark.parametrize("flagged", [True, False], ids=["flagged", "unflagged"])
def test_upstream_shortens_the_hit(vllm: Sources, drafter: Drafter, flagged: bool) -> None:
    """Five blocks, served twice: the model alone finds four of them again, with a drafter less."""
    alone = Engine(loaded(vllm, False), None, use_eagle=False)
    engine = Engine(loaded(vllm, False), drafter, flagged=flagged)
    patched = Engine(loaded(vllm, True), drafter, flagged=flagged)
    hits = []
    for one in (alone, engine, patched):
        for _ in range(2):
            hit = one.serve(one.request("aaaaa", 20), 1)
        hits.append(hit)
    assert hits[0] == 4 * BLOCK
    assert hits[1] < hits[0]
    assert hits[2] == hits[0]


@DRAFTERS
def test_the_drafter_finds_its_window_again(vllm: Sources, drafter: Drafter) -> None:
    """Also where the prompt ends close behind the hit, so that no block follows it."""
    engine = Engine(loaded(vllm, True), drafter)
    engine.serve(engine.request("aaaaa", 20), 1)
    blocks, hit = engine.lookup(engine.request("aaaaa", 20))
    first = (hit - drafter.window + 1) // engine.draft_manager.block_size
    assert hit == 4 * BLOCK
    assert not any(block.is_null for block in blocks[-1][first:])


@DRAFTERS
def test_only_the_drafters_group_is_an_eagle_group(vllm: Sources, drafter: Drafter) -> None:
    for flagged in (True, False):
        engine = Engine(loaded(vllm, True), drafter, flagged=flagged)
        last = len(engine.pool.kv_cache_groups) - 1
        assert engine.coordinator.eagle_group_ids == {last}
    # upstream, when the flag did not reach it, flags all
    engine = Engine(loaded(vllm, False), drafter, flagged=False)
    assert engine.coordinator.eagle_group_ids == set(range(last + 1))


def test_without_a_drafter_nothing_changes(vllm: Sources) -> None:
    engine = Engine(loaded(vllm, True), None)
    assert engine.coordinator.drafter_group_ids == set()
    assert engine.coordinator.eagle_group_ids == set(range(len(engine.pool.kv_cache_groups)))
    plain = Engine(loaded(vllm, True), None, use_eagle=False)
    assert plain.coordinator.eagle_group_ids == set()


@DRAFTERS
@quick
@given(found=requests, num_blocks=st.integers(60, 400))
def test_the_hit_is_the_models_own(
    vllm: Sources, drafter: Drafter, found: list[tuple[list[str], int, int]], num_blocks: int
) -> None:
    """Whatever was served before, and whatever was evicted since."""
    engine = Engine(loaded(vllm, True), drafter, num_blocks)
    for blocks, last, chunk in prompts(found):
        request = engine.request(blocks, last)
        expected, length = engine.of_the_model(request)
        hit_blocks, hit = engine.lookup(request)
        assert hit == length
        assert hit_blocks[:-1] == expected[:-1]
        assert engine.serve(request, chunk) == hit


@quick
@given(found=requests)
def test_hits_with_and_without_a_drafter(
    vllm: Sources, found: list[tuple[list[str], int, int]]
) -> None:
    """The same prompts, nothing evicted, in a geometry whose unit of hashing stays the block."""
    drafter = Drafter(heads=1, window=80)  # as many bytes a token as the MLA layers
    with_drafter = Engine(loaded(vllm, True), drafter)
    without = Engine(loaded(vllm, True), None, use_eagle=False)
    assert with_drafter.unit == without.unit == BLOCK
    for blocks, last, chunk in prompts(found):
        hits = [
            engine.serve(engine.request(blocks, last), chunk) for engine in (with_drafter, without)
        ]
        assert hits[0] == hits[1]


@DRAFTERS
@quick
@given(found=requests, lost=st.integers(0, 30))
def test_a_drafter_that_lost_blocks_costs_nothing(
    vllm: Sources, drafter: Drafter, found: list[tuple[list[str], int, int]], lost: int
) -> None:
    """Its blocks go out of the cache one by one, as an eviction takes them."""
    engine = Engine(loaded(vllm, True), drafter)
    group = len(engine.pool.kv_cache_groups) - 1
    for blocks, last, chunk in prompts(found):
        engine.serve(engine.request(blocks, last), chunk)
        pool = engine.coordinator.block_pool
        held = [b for b in pool.blocks if b.block_hash is not None and b.ref_cnt == 0]
        drafts = [b for b in held if engine.up.utils.get_group_id(b.block_hash) == group]
        for block in drafts[lost % (len(drafts) + 1) :: 3]:
            pool._maybe_evict_cached_block(block)
        request = engine.request(blocks, last)
        assert engine.lookup(request)[1] == engine.of_the_model(request)[1]

"""v11.G: the drafter's group in GLM-5.3-Flash's cache; every byte of the pool is accounted for."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.proofs import glm53
from tests.proofs.glm53 import MLA, Drafter, Geometry
from tests.proofs.upstream import BF16, UINT8, Upstream

if TYPE_CHECKING:
    from conftest import Sources

FILE = "vllm/v1/core/kv_cache_utils.py"
GIB = 1 << 30
FP8, FULL = Geometry(4608, UINT8), Geometry(2304, BF16)

quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
geometries = st.builds(
    Geometry, st.integers(1, 40).map(lambda n: n * 128), st.sampled_from([UINT8, BF16])
)
drafters = st.builds(
    Drafter,
    layers=st.integers(1, 14),
    heads=st.integers(1, 9),
    head_size=st.sampled_from([64, 128]),
    window=st.integers(17, 4096),
)


@cache
def loaded(vllm: Sources, patched: bool) -> Upstream:
    return Upstream(vllm, [edit.id for edit in vllm.edits(FILE)] if patched else ())


@pytest.fixture
def before(vllm: Sources) -> Upstream:
    return loaded(vllm, False)


@pytest.fixture
def after(vllm: Sources) -> Upstream:
    return loaded(vllm, True)


def groups(up: Upstream, geometry: Geometry, drafter: Drafter | None, **kwargs: Any) -> list[Any]:
    config = glm53.settings(geometry, **kwargs)
    found: list[Any] = up.utils.get_kv_cache_groups(config, glm53.specs(up, geometry, drafter))
    return found


def plan(
    up: Upstream, geometry: Geometry, drafter: Drafter | None, memory: int, **kwargs: Any
) -> Any:
    """The worker's cache, by the function that the engine calls."""
    config = glm53.settings(geometry, **kwargs)
    layers = glm53.specs(up, geometry, drafter)
    (made,) = up.utils.get_kv_cache_configs(config, [layers], [memory])
    return made


def described(found: list[Any]) -> list[str]:
    return [repr(group) for group in found]


class TestUpstream:
    @pytest.mark.parametrize("geometry", [FP8, FULL], ids=["fp8", "bf16"])
    def test_has_no_plan_for_a_drafter(self, before: Upstream, geometry: Geometry) -> None:
        with pytest.raises(NotImplementedError, match="page size is not divisible"):
            groups(before, geometry, Drafter())

    @pytest.mark.parametrize("geometry", [FP8, FULL], ids=["fp8", "bf16"])
    def test_without_a_drafter_nothing_changes(
        self, before: Upstream, after: Upstream, geometry: Geometry
    ) -> None:
        plans = [groups(up, geometry, None) for up in (before, after)]
        assert described(plans[0]) == described(plans[1])
        pools = [plan(up, geometry, None, 24 * GIB) for up in (before, after)]
        assert repr(pools[0]) == repr(pools[1])


class TestKnownSizes:
    """One rank of two: 4 of the drafter's heads, 2,048 bytes a token and layer."""

    @pytest.mark.parametrize("geometry", [FP8, FULL], ids=["fp8", "bf16"])
    def test_exact_fit(self, after: Upstream, geometry: Geometry) -> None:
        *model, draft = groups(after, geometry, Drafter())
        assert geometry.mla_page == 2_359_296
        assert draft.kv_cache_spec.block_size == 1152
        assert draft.kv_cache_spec.page_size_bytes == geometry.mla_page
        assert draft.is_eagle_group
        # not a byte more than the model alone
        block = after.utils._pool_bytes_per_block([*model, draft])
        assert block == after.utils._pool_bytes_per_block(model)
        assert block == 11 * (geometry.mla_page + geometry.index_page)
        assert block == {FP8: 27_624_960, FULL: 26_788_608}[geometry]

    def test_stand_alone(self, after: Upstream) -> None:
        drafter = Drafter(heads=5)  # 2,560 bytes a token: no whole number of them is an MLA page
        *model, draft = groups(after, FP8, drafter)
        spec = draft.kv_cache_spec
        assert FP8.mla_page % drafter.token_bytes
        assert spec.page_size_padded is None
        assert spec.page_size_bytes == spec.block_size * 2560
        block = after.utils._pool_bytes_per_block([*model, draft])
        assert block == 27_624_960 + 5 * spec.page_size_bytes

    def test_more_drafter_than_mla_layers_stand_alone(self, after: Upstream) -> None:
        *model, draft = groups(after, FP8, Drafter(layers=len(MLA) + 1))
        own = 12 * draft.kv_cache_spec.page_size_bytes
        assert after.utils._pool_bytes_per_block([*model, draft]) == 27_624_960 + own

    def test_a_drafter_that_drops_no_block_is_no_eagle_group(self, after: Upstream) -> None:
        assert not groups(after, FP8, Drafter(), drops=False)[-1].is_eagle_group


def occupied(pool: Any) -> dict[str, tuple[int, int]]:
    """Layer -> (where its block 0 starts, bytes of a block); blocks follow each other."""
    places = {}
    for tensor in pool.kv_cache_tensors:
        (name,) = tensor.layers
        places[name] = (tensor.offset, tensor.block_stride)
        assert tensor.layer_stride == tensor.block_stride * pool.num_blocks
    return places


@quick
@given(geometry=geometries, drafter=drafters, gib=st.integers(60, 90))
def test_every_byte(after: Upstream, geometry: Geometry, drafter: Drafter, gib: int) -> None:
    memory = gib * GIB
    pool = plan(after, geometry, drafter, memory, max_model_len=16_384)
    places = occupied(pool)
    owner = {name: i for i, group in enumerate(pool.kv_cache_groups) for name in group.layer_names}
    assert set(places) == set(owner) == set(glm53.specs(after, geometry, drafter))

    # the pool is as large as its blocks, and what is left over is less than a block
    block = after.utils._pool_bytes_per_block(pool.kv_cache_groups)
    (size,) = {tensor.size for tensor in pool.kv_cache_tensors}
    assert size == block * pool.num_blocks
    assert 0 <= memory - size < block

    # the regions lie side by side and fill the pool: no gap, no byte outside
    regions = {}
    for offset, stride in places.values():
        end = offset + stride * pool.num_blocks
        regions[offset] = max(regions.get(offset, 0), end)
    ends = [0, *(regions[start] for start in sorted(regions))]
    assert ends[:-1] == sorted(regions)
    assert ends[-1] == size

    # where layers overlap they are of different groups, and block for block at the same place
    for one, other in combinations(places, 2):
        (start, stride), (start2, stride2) = places[one], places[other]
        if start < start2 + stride2 * pool.num_blocks and start2 < start + stride * pool.num_blocks:
            assert owner[one] != owner[other]
            assert (start, stride) == (start2, stride2)


@quick
@given(geometry=geometries, drafter=drafters)
def test_the_drafters_pages(after: Upstream, geometry: Geometry, drafter: Drafter) -> None:
    *model, draft = groups(after, geometry, drafter, max_model_len=65_536)
    assert described(model) == described(groups(after, geometry, None))
    spec = draft.kv_cache_spec
    assert spec.page_size_padded is None
    assert spec.page_size_bytes == spec.block_size * drafter.token_bytes
    assert spec.block_size % 16 == 0  # FlashAttention and Triton take it whole, others split it
    assert geometry.block % spec.block_size == 0
    fits, rest = divmod(geometry.mla_page, drafter.token_bytes)
    exact = not rest and fits % 16 == 0 and geometry.block % fits == 0
    shares = exact and drafter.layers <= len(MLA)
    assert (spec.page_size_bytes == geometry.mla_page) >= shares
    own = after.utils._pool_bytes_per_block([*model, draft])
    own -= after.utils._pool_bytes_per_block(model)
    assert own == (0 if shares else drafter.layers * spec.page_size_bytes)


@quick
@given(
    geometry=geometries,
    drafter=drafters,
    length=st.integers(1, 300_000),
    flight=st.integers(1, 16_384),
)
def test_the_memory_of_a_request(
    after: Upstream, geometry: Geometry, drafter: Drafter, length: int, flight: int
) -> None:
    """Counted by hand: MLA blocks, two states of each of the Mamba groups, a tail, the window."""
    kwargs = {"max_model_len": length, "in_flight": flight}
    *model, draft = groups(after, geometry, drafter, **kwargs)
    mamba = math.ceil((glm53.LAYERS - len(MLA)) / len(MLA))
    target = math.ceil(length / geometry.block) + 2 * mamba + 1
    target_bytes = len(MLA) * (geometry.mla_page + geometry.index_page)

    def bytes_of(block: int, *, shares: bool) -> int:
        tokens = min(drafter.window - 1 + flight, length)
        ids = target + math.ceil(tokens / block) + 1
        own = 0 if shares else drafter.layers * block * drafter.token_bytes
        return ids * (target_bytes + own)

    config = glm53.settings(geometry, **kwargs)
    needed = after.utils._max_memory_usage_bytes_from_groups(config, [*model, draft])
    chosen = draft.kv_cache_spec.block_size
    shares = chosen * drafter.token_bytes == geometry.mla_page and drafter.layers <= len(MLA)
    assert needed == bytes_of(chosen, shares=shares)
    if not shares:  # no other block would need less
        others = [n for n in range(16, geometry.block + 1, 16) if geometry.block % n == 0]
        assert needed == min(bytes_of(n, shares=False) for n in others)
    # the figure that the engine prints counts the same blocks
    pool = plan(after, geometry, drafter, 3 * needed + GIB, **kwargs)
    block = after.utils._pool_bytes_per_block(pool.kv_cache_groups)
    concurrency = after.utils.get_max_concurrency_for_kv_cache_config(config, pool)
    assert concurrency == pool.num_blocks / (needed // block)


@quick
@given(geometry=geometries, drafter=drafters)
def test_the_scheduler(after: Upstream, geometry: Geometry, drafter: Drafter) -> None:
    """Its block stays, its copy knows the drafter's group, every group has its manager."""
    config = glm53.settings(geometry, max_model_len=8192)
    sizes = []
    for who in (None, drafter):
        pool = plan(after, geometry, who, 90 * GIB, max_model_len=8192)
        copied = after.utils.generate_scheduler_kv_cache_config([pool])
        sizes.append(after.utils.resolve_kv_cache_block_sizes(copied, config)[0])
    assert sizes[0] == sizes[1]
    assert [group.is_eagle_group for group in copied.kv_cache_groups][-1]
    assert sum(group.is_eagle_group for group in copied.kv_cache_groups) == 1
    manager = after.managers.KVCacheSpecRegistry.get_manager_class(
        copied.kv_cache_groups[-1].kv_cache_spec, None
    )
    assert manager is after.managers.SlidingWindowManager


def test_a_worker_without_the_drafter(after: Upstream) -> None:
    """A pipeline stage that holds none of its layers keeps the group, empty, and its own bytes."""
    for drafter in (Drafter(), Drafter(heads=5)):
        found = groups(after, FP8, drafter)
        own = glm53.specs(after, FP8, None)
        projected = after.utils._project_kv_cache_groups_to_worker(found, own)
        assert projected[-1].layer_names == []
        alone = after.utils._pool_bytes_per_block(groups(after, FP8, None))
        assert after.utils._pool_bytes_per_block(projected) == alone
        config = glm53.settings(FP8)
        pool = after.utils.get_kv_cache_config_from_groups(config, projected, 24 * GIB)
        assert {name for tensor in pool.kv_cache_tensors for name in tensor.layers} == set(own)


def test_layers_of_two_shapes_are_left_to_upstream(after: Upstream) -> None:
    layers = glm53.specs(after, FP8, Drafter())
    layers |= {
        f"other.{name}": spec
        for name, spec in glm53.specs(after, FP8, Drafter(heads=2)).items()
        if "model.layers.4" in name and type(spec) is after.interface.SlidingWindowSpec
    }
    with pytest.raises(NotImplementedError, match="page size is not divisible"):
        after.utils.get_kv_cache_groups(glm53.settings(FP8), layers)

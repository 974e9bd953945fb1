"""GLM-5.3-Flash's cache layers as vLLM 0.30.0 describes them, and the settings for planners."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from tests.proofs.upstream import BF16, FP32, UINT8, Dtype, Upstream

POOL = 4  # tokens that the indexer stores as one
INDEX_BYTES = 132  # of a pool: 128 fp8 values and a scale
LATENT = 512  # values of a token in an MLA layer
LAYERS = 45
MLA = range(3, LAYERS, 4)  # 11 layers; the other 34 are linear attention
KDA_BYTES = 32 * 128 * 128 * 4 + 3 * 4096 * 3 * 2  # recurrent state and convolution, of one rank


@dataclass(frozen=True)
class Drafter:
    """Sliding-window layers; `token_bytes` is what one layer stores for a token."""

    layers: int = 5
    heads: int = 4
    head_size: int = 128
    window: int = 2048

    @property
    def token_bytes(self) -> int:
        return 2 * self.heads * self.head_size * BF16.itemsize


@dataclass(frozen=True)
class Geometry:
    """`block` is the model's, in tokens; `latent` the type of its MLA cache."""

    block: int = 4608
    latent: Dtype = UINT8

    @property
    def mla_page(self) -> int:
        return self.block * LATENT * self.latent.itemsize

    @property
    def index_page(self) -> int:
        return self.block // POOL * INDEX_BYTES


def specs(up: Upstream, geometry: Geometry, drafter: Drafter | None) -> dict[str, Any]:
    """Layer name -> spec, in the order in which the layers register."""
    kv = up.interface
    result: dict[str, Any] = {}
    state = min(KDA_BYTES, geometry.mla_page)
    for index in range(LAYERS):
        name = f"language_model.model.layers.{index}.self_attn"
        if index not in MLA:
            result[name] = kv.MambaSpec(
                block_size=geometry.block,
                shapes=((state // 4,),),
                dtypes=(FP32,),
                mamba_cache_mode="align",
            )
            continue
        result[f"{name}.attn"] = kv.MLAAttentionSpec(
            block_size=geometry.block, num_kv_heads=1, head_size=LATENT, dtype=geometry.latent
        )
        result[f"{name}.indexer.k_cache"] = kv.MLAAttentionSpec(
            block_size=geometry.block,
            num_kv_heads=1,
            head_size=INDEX_BYTES,
            dtype=UINT8,
            tokens_per_state=POOL,
        )
        result[f"{name}.indexer.tail"] = kv.KpoolTailSpec(
            block_size=POOL,
            num_kv_heads=2,
            head_size=128,
            head_size_v=0,
            dtype=BF16,
            sliding_window=POOL,
        )
    for index in range(drafter.layers if drafter else 0):
        assert drafter is not None
        # The largest block of the kernels within the model's block: FlashAttention takes it whole.
        result[f"model.layers.{LAYERS + index}.self_attn.attn"] = kv.SlidingWindowSpec(
            block_size=geometry.block,
            num_kv_heads=drafter.heads,
            head_size=drafter.head_size,
            dtype=BF16,
            sliding_window=drafter.window,
        )
    return result


def settings(
    geometry: Geometry, *, max_model_len: int = 262_144, in_flight: int = 8192, drops: bool = True
) -> Any:
    """What of a VllmConfig the planners and coordinators ask for."""
    return SimpleNamespace(
        max_in_flight_tokens=in_flight,
        model_config=SimpleNamespace(
            max_model_len=max_model_len,
            original_max_model_len=max_model_len,
            hf_config=SimpleNamespace(model_type="glm5_next"),
        ),
        parallel_config=SimpleNamespace(pipeline_parallel_size=1, decode_context_parallel_size=1),
        cache_config=SimpleNamespace(
            block_size=geometry.block,
            mamba_cache_mode="align",
            num_gpu_blocks_override=None,
            prefix_cache_retention_interval=None,
            enable_prefix_caching=True,
            prefix_match_unit=None,
            get_resolved_kv_cache_layout=lambda: SimpleNamespace(is_block_outermost=False),
        ),
        scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=False),
        attention_config=SimpleNamespace(hisparse_config=None),
        kv_transfer_config=None,
        speculative_config=SimpleNamespace(
            method="dflash",
            num_speculative_tokens=7,
            use_eagle=lambda: True,
            use_eagle_block_drop=lambda: drops,
            use_multi_module_mtp=lambda: False,
        ),
    )

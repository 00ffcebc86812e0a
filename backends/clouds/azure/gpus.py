"""GPU model and count of Azure's types, as data: a type that is not here is unknown, not without a GPU.

Source: Microsoft's pages on GPU-accelerated sizes. Parts of a GPU (NVadsA10_v5 below 36 cores) are left out.
"""

from __future__ import annotations

GPUS: dict[str, tuple[str, int]] = {
    "standard_nc24ads_a100_v4": ("A100", 1),
    "standard_nc48ads_a100_v4": ("A100", 2),
    "standard_nc96ads_a100_v4": ("A100", 4),
    "standard_nd96asr_v4": ("A100", 8),
    "standard_nd96amsr_a100_v4": ("A100", 8),
    "standard_nc40ads_h100_v5": ("H100", 1),
    "standard_nc80adis_h100_v5": ("H100", 2),
    "standard_nd96isr_h100_v5": ("H100", 8),
    "standard_nd96isr_h200_v5": ("H200", 8),
    "standard_nc4as_t4_v3": ("T4", 1),
    "standard_nc8as_t4_v3": ("T4", 1),
    "standard_nc16as_t4_v3": ("T4", 1),
    "standard_nc64as_t4_v3": ("T4", 4),
    "standard_nc6s_v3": ("V100", 1),
    "standard_nc12s_v3": ("V100", 2),
    "standard_nc24s_v3": ("V100", 4),
}

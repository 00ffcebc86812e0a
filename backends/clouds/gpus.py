"""GPU model and count of Azure's and Google's types, as data: a type that is not here is unknown, not without a GPU.

Source: the providers' pages on GPU machine types. Parts of a GPU are left out, and GPUs attached to N1 machines, which the type
does not name. AWS's are in `aws.gpus`.
"""

from __future__ import annotations

_AZURE: dict[str, tuple[str, int]] = {
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
_GOOGLE: dict[str, tuple[str, int]] = {
    **{f"a2-highgpu-{count}g": ("A100", count) for count in (1, 2, 4, 8)},
    **{f"a2-ultragpu-{count}g": ("A100", count) for count in (1, 2, 4, 8)},
    "a2-megagpu-16g": ("A100", 16),
    **{f"a3-highgpu-{count}g": ("H100", count) for count in (1, 2, 4, 8)},
    "a3-megagpu-8g": ("H100", 8),
    "a3-edgegpu-8g": ("H100", 8),
    "a3-ultragpu-8g": ("H200", 8),
    **{f"g2-standard-{cores}": ("L4", 1) for cores in (4, 8, 12, 16, 32)},
    "g2-standard-24": ("L4", 2),
    "g2-standard-48": ("L4", 4),
    "g2-standard-96": ("L4", 8),
}


def gpu_of(provider: str, instance_type: str) -> tuple[str, int] | None:
    """(model, count) of a type of `azure`, `gcp`, or a marketplace (whose types are named by it); None when it is not in the table."""
    if provider in ("runpod", "vast"):
        count, _, model = instance_type.partition("x-")
        return (model.split("-")[0].upper(), int(count)) if count.isdigit() and model else None
    table = {"azure": _AZURE, "gcp": _GOOGLE}.get(provider, {})
    return table.get(instance_type.lower())

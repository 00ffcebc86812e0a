"""The engine `criu-cuda`: CRIU for the process, the driver's own `cuda-checkpoint` for what it has on GPUs."""

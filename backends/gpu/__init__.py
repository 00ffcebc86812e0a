"""GPUs through NVML, the library that comes with the NVIDIA driver; the only room that loads `pynvml`."""

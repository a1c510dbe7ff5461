/* A library by the default name of a profiler, in place of one that NCCL has loaded. */
int profiler_library_is_loaded = 1;

/*
 * How Doug Lea's malloc 2.8.3 is compiled here; before `#include "dlmalloc.c"`, which a package of a registry brings (lab/allocators.toml).
 * Its functions get the prefix dl, its own calls are serialised by a mutex in each of its spaces where that space is told to, and blocks are aligned as
 * programs on this machine expect. What it assumes of old systems (its own struct mallinfo) is switched off.
 */
#define USE_DL_PREFIX 1
#define USE_LOCKS 1
#define NO_MALLINFO 1
#define MALLOC_ALIGNMENT ((size_t)16)

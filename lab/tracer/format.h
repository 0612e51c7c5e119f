/*
 * The trace format, version 1, as FORMAT.md describes it: shared by the library that writes words, the launcher that writes files, and
 * everything that reads them. No state, no dependencies.
 */
#ifndef MARE_LAB_FORMAT_H
#define MARE_LAB_FORMAT_H

#include <stdint.h>

#define MTR_MAGIC "MARETRC1"
#define MTR_VERSION 1u
#define MTR_CHUNK_MAGIC 0x4b4e4843u /* "CHNK" */
#define MTR_CHUNK_WORDS 2048u       /* of 8 bytes */
#define MTR_MAX_STREAM 16383u
#define MTR_REGION_BITS 16
#define MTR_REGIONS (1u << MTR_REGION_BITS)
#define MTR_ADDRESS_MASK ((UINT64_C(1) << 44) - 1)
#define MTR_SIZE_ESCAPE 16383u
#define MTR_STACK_ALWAYS 32768u     /* where stacks are sampled, allocations of so many bytes always have theirs */
#define MTR_PAYLOAD ((UINT64_C(1) << 60) - 1)
#define MTR_POSITION ((UINT64_C(1) << 40) - 1)

enum mtr_kind {
  MTR_PAD, MTR_MALLOC, MTR_CALLOC, MTR_REALLOC_BEGIN, MTR_REALLOC_END, MTR_FREE, MTR_ALIGNED,
  MTR_TIME, MTR_SIZE, MTR_REGION, MTR_STACK, MTR_THREAD, MTR_ALIGNMENT, MTR_KINDS
};
enum mtr_label { MTR_NO_LABEL, MTR_LABEL_NEW, MTR_LABEL_NEW_ARRAY };
enum mtr_aligned { MTR_POSIX_MEMALIGN = 1, MTR_ALIGNED_ALLOC, MTR_MEMALIGN, MTR_VALLOC, MTR_PVALLOC };

typedef struct mtr_header {
  char magic[8];
  uint32_t version, header_bytes, pid, image, chunk_words, zero;
  uint64_t trace_began_us, image_began_us;
  uint64_t reserved[2];
} mtr_header;

typedef struct mtr_entry {
  uint32_t magic, stream, index, words;
} mtr_entry;

static inline uint64_t mtr_word(unsigned kind, uint64_t payload) { return ((uint64_t)kind << 60) | payload; }
static inline unsigned mtr_kind(uint64_t word) { return (unsigned)(word >> 60); }
static inline uint64_t mtr_payload(uint64_t word) { return word & MTR_PAYLOAD; }

static inline uint64_t mtr_event(unsigned kind, uint64_t address, unsigned label, uint64_t size)
{
  return mtr_word(kind, (size << 46) | ((uint64_t)label << 44) | (address >> 3));
}
static inline uint64_t mtr_address(uint64_t word) { return (word & MTR_ADDRESS_MASK) << 3; }
static inline unsigned mtr_label(uint64_t word) { return (unsigned)(word >> 44) & 3; }
static inline uint64_t mtr_short_size(uint64_t word) { return (word >> 46) & MTR_SIZE_ESCAPE; }
static inline int mtr_is_event(unsigned kind) { return kind >= MTR_MALLOC && kind <= MTR_ALIGNED; }

static inline unsigned mtr_region(uint64_t address)
{
  return (unsigned)(((address >> 16) * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - MTR_REGION_BITS));
}

#endif

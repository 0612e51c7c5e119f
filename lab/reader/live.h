/*
 * The blocks that are alive, by address: 24 bytes each, at most 32 with the room between them. Growing moves a 1024th of them at a time, so the bound
 * holds while it grows too.
 */
#ifndef MARE_LAB_LIVE_H
#define MARE_LAB_LIVE_H

#include <stddef.h>
#include <stdint.h>

typedef struct lv_block {
  uint64_t address, size;
  uint64_t operation;  /* operations before it; modulo 2^36 */
  uint64_t bytes;      /* bytes allocated before it, in units of 256, modulo 2^32 */
  uint32_t time_ms;    /* modulo 2^28 */
  uint32_t thread;     /* to 16,383 */
  uint32_t routine;    /* 0 to 7 */
} lv_block;

typedef struct lv_table lv_table;

lv_table *lv_new(void);
void lv_free(lv_table *t);
/* 1; 0 if a block was there already, which is replaced and given back in *old; -1 out of memory. */
int lv_add(lv_table *t, const lv_block *block, lv_block *old);
/* Takes a block out: 1, or 0 if there is none. */
int lv_take(lv_table *t, uint64_t address, lv_block *block);
size_t lv_count(const lv_table *t);
size_t lv_bytes(const lv_table *t); /* memory it uses */
/* Calls f for every block, then forgets them. */
void lv_drain(lv_table *t, void (*f)(void *data, const lv_block *block), void *data);

#endif

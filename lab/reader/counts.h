/*
 * Small structures for measuring in one pass over a stream whose length isn't known: a table of counts by key, and a row of bins that doubles its
 * step when it is full.
 */
#ifndef MARE_LAB_COUNTS_H
#define MARE_LAB_COUNTS_H

#include <stddef.h>
#include <stdint.h>

typedef struct ct_item { uint64_t key, number, sum; } ct_item; /* number 0: empty */
typedef struct ct_table { ct_item *items; size_t count, room, most; uint64_t refused; } ct_table;

/* Adds to a key's number and sum; beyond `most` keys new ones are counted in `refused`. 0 only when out of memory. */
int ct_add(ct_table *t, uint64_t key, uint64_t number, uint64_t sum);
/* The items, packed to the front of the table and sorted by key (0) or by falling number (1); the table can't be added to afterwards. */
ct_item *ct_sorted(ct_table *t, int by_number);
void ct_free(ct_table *t);

/* Classes of a logarithmic scale, four to an octave, exact below 8; 0 to CT_CLASSES - 1. */
#define CT_CLASSES 252
unsigned ct_class(uint64_t value);
uint64_t ct_class_last(unsigned c); /* the largest value of class c */

/* Codes of sizes: exact up to here, then 16 to an octave; in 13 bits. */
#define CT_EXACT_SIZES 4096
unsigned ct_size_code(uint64_t size);

/* The value of something at the end of each step. `at` may not go back. */
#define CT_BINS 1024
typedef struct ct_curve { uint64_t step, last; uint64_t a[CT_BINS], b[CT_BINS]; uint64_t now_a, now_b; } ct_curve;
void ct_curve_start(ct_curve *c, uint64_t step);
void ct_curve_set(ct_curve *c, uint64_t at, uint64_t a, uint64_t b);

#endif

/*
 * bulk: long messages, which are not copied where that can be avoided.
 *
 * One that came is a userdata which owns the bytes as they were received, outside all heaps; programs decode it as they decode a string. Whoever
 * decodes it for the last time says so (CDR_BULK), and the bytes are freed at once: the collector does not know how many they are. Messages that
 * nobody decodes (a reply that came too late, arguments an operation does not have) are left to it; when a state holds many bytes so, it is told of
 * each further message as if that had been allocated from it.
 * One that goes out is a list of three strings: what stands before its last value, that value itself (also a buffer), what stands behind it.
 * Both have a length (#).
 */
#ifndef MR_CDR_BULK_H
#define MR_CDR_BULK_H

#include <stddef.h>
#include "lua/compat.h"
#include "share/buffer.h"

#define MR_BULK_FROM ((size_t)1 << 16)         /* bytes from which it pays */

#define MR_BULK_OWED ((size_t)16 << 20)        /* bytes of a state from which the collector has to know */

/* How many bytes a state's messages own. It goes with the last of them, and whatever a program does to the registry. */
typedef struct mr_owed { size_t bytes, refs; } mr_owed;
/* uses: who reads its bytes now; one that an error ended stays counted, and the collector frees them. */
/* store: it has the block since a buffer has part of it, too. */
typedef struct mr_bulk { uintptr_t tag; char *block; const char *p; size_t len; mr_owed *owed; unsigned uses; mr_store *store; } mr_bulk;

mr_bulk *mr_bulk_push(lua_State *L);           /* empty */
/* It owns the block (malloc's), in which the bytes lie. May collect garbage. */
void     mr_bulk_fill(lua_State *L, mr_bulk *b, char *block, const char *p, size_t len);
mr_bulk *mr_bulk_at(lua_State *L, int idx);    /* NULL: it is none */
void     mr_bulk_free(mr_bulk *b);             /* unless somebody uses it */
/* The bytes of a string or a bulk at idx; NULL: it is neither, or was freed. */
const char *mr_bulk_bytes(lua_State *L, int idx, size_t *len);

/* Pushes a sealed buffer with n bytes at s, which lie in the message that is decoded, at index 2: a long one shares its block. */
void mr_bulk_octets(lua_State *L, const char *s, size_t n);

/* The three strings on the top, of which the second may be a sealed buffer, become a list. */
void mr_bulk_list(lua_State *L);

#endif

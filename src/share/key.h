/*
 * key: keys of dictionaries, as Lua's tables know them: strings, integers, floats, booleans. A float that is a whole number is that integer, so
 * 1 and 1.0 are one key, and so are 0 and -0.0. nan is none.
 *
 * Whoever can choose keys - names of visitors, say - must not be able to choose such that fall into one place: hashes are drawn from a secret of
 * this run (mr_key_setup), and differ in it also where whole words of long keys are exchanged.
 */
#ifndef MR_KEY_H
#define MR_KEY_H

#include <stdint.h>
#include <string.h>
#include "lua/compat.h"

enum { KEY_STRING, KEY_INTEGER, KEY_FLOAT, KEY_BOOLEAN };
#define MR_KEY_MOST ((size_t)1 << 30)            /* bytes of a string */

typedef struct mr_key {
  uint64_t hash;
  uint64_t number;                     /* bits, of what is no string */
  const char *text;                    /* of a string; not owned */
  uint32_t length;                     /* 0: no string, or an empty one */
  unsigned char type;
} mr_key;

extern uint64_t mr_key_secret[2];
void mr_key_setup(void);               /* before there are threads */

/* Both halves of the product: no difference in a or b stays in one place. */
static inline uint64_t mr_fold(uint64_t a, uint64_t b) {
#ifdef __SIZEOF_INT128__
  __extension__ typedef unsigned __int128 wide;
  wide m = (wide)a * b;
  return (uint64_t)m ^ (uint64_t)(m >> 64);
#else
  uint64_t ah = a >> 32, al = (uint32_t)a, bh = b >> 32, bl = (uint32_t)b;
  uint64_t low = al * bl, middle = ah * bl + (low >> 32), other = al * bh + (uint32_t)middle;
  return (other << 32 | (uint32_t)low) ^ (ah * bh + (middle >> 32) + (other >> 32));
#endif
}

static inline uint64_t mr_read8(const char *p) {
  uint64_t w;
  memcpy(&w, p, 8);
  return w;
}
static inline uint64_t mr_read4(const char *p) {
  uint32_t w;
  memcpy(&w, p, 4);
  return w;
}

static inline uint64_t mr_hash_bytes(const char *p, size_t n) {
  uint64_t s = mr_key_secret[0], t = mr_key_secret[1], a = 0, b = 0;
  size_t left = n;
  for (; left > 16; p += 16, left -= 16) s = mr_fold(mr_read8(p) ^ t, mr_read8(p + 8) ^ s);
  if (left >= 8) {                     /* the first and the last words, which may overlap */
    a = mr_read8(p);
    b = mr_read8(p + left - 8);
  } else if (left >= 4) {
    a = mr_read4(p);
    b = mr_read4(p + left - 4);
  } else if (left > 0) {
    a = (uint64_t)(unsigned char)p[0] << 16 | (uint64_t)(unsigned char)p[left / 2] << 8 | (unsigned char)p[left - 1];
  }
  return mr_fold(t ^ n, mr_fold(a ^ t, b ^ s));
}

static inline void mr_key_of_string(mr_key *k, const char *text, size_t length) {
  k->type = KEY_STRING;
  k->text = text;
  k->length = (uint32_t)length;
  k->number = 0;
  k->hash = mr_hash_bytes(text, length);
}

static inline void mr_key_of_number(mr_key *k, unsigned char type, uint64_t bits) {
  k->type = type;
  k->text = "";
  k->length = 0;
  k->number = bits;
  k->hash = mr_fold(bits ^ mr_key_secret[0], mr_key_secret[1] + type);
}

/* The value at idx as a key; its text is the Lua string's. 0: it can't be one. */
static inline int mr_key_get(lua_State *L, int idx, mr_key *k) {
  switch (lua_type(L, idx)) {
    case LUA_TSTRING: {
      size_t length;
      const char *text = lua_tolstring(L, idx, &length);
      if (length > MR_KEY_MOST) return 0;
      mr_key_of_string(k, text, length);
      return 1;
    }
    case LUA_TNUMBER: {
      lua_Integer i;
      lua_Number n;
      if (lua_isinteger(L, idx)) {
        mr_key_of_number(k, KEY_INTEGER, (uint64_t)lua_tointeger(L, idx));
        return 1;
      }
      n = lua_tonumber(L, idx);
      if (n != n) return 0;
      if (n >= -0x1p63 && n < 0x1p63 && (lua_Number)(i = (lua_Integer)n) == n) {
        mr_key_of_number(k, KEY_INTEGER, (uint64_t)i);
      } else {
        uint64_t bits;
        memcpy(&bits, &n, sizeof bits);
        mr_key_of_number(k, KEY_FLOAT, bits);
      }
      return 1;
    }
    case LUA_TBOOLEAN: mr_key_of_number(k, KEY_BOOLEAN, (uint64_t)lua_toboolean(L, idx)); return 1;
    default: return 0;
  }
}

void mr_key_push(lua_State *L, const mr_key *k);

#endif

/* get_text: characters and strings of all kinds, from bytes to Lua, where they are UTF-8; but for the narrow ones of a program with ISO 8859-1. */
#include "cdr/get.h"
#include "cdr/bulk.h"
#include "cdr/text.h"

enum { DATA_CONVERSION = 1 };

/*
 * Short strings that messages have are often the same ones: states, units, names of kinds. Lua hashes and seeks each of them; here a few that were read
 * last are found by their ends alone. Of a place that two of them want the later one has it. Those of one character have places of their own.
 * The list is one that programs do not see, but by the debug library: so what is in it is looked at as anybody's would be.
 */
void mr_push_new_text(mr_dec *d, const char *s, size_t n, uint32_t place) {
  lua_State *L = d->L;
  lua_pushlstring(L, s, n);
  raw_value *to = mr_kept(d, place);             /* now, as garbage may have been collected */
  const raw_value *string = raw_top(L) - 1;
  if (!to || string->tt != RAW_SHORT) return;
  if (PORT_LIKELY(!raw_isblack(d->env->kept) || !raw_iswhite((const void *)(uintptr_t)string->bits))) {
    to->bits = string->bits;
    to->tt = RAW_SHORT;
    return;
  }
  mr_env_table(L, d->fields, ENV_KEPT);
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, (lua_Integer)place + 1);
  lua_pop(L, 1);
}

/* Bytes of the message's char code set. */
static void push_converted(mr_dec *d, const char *s, size_t n) {
  lua_State *L = d->L;
  if (PORT_LIKELY((d->codec & CDR_AS_IS) || mr_text_ascii(s, n))) { mr_push_text(d, s, n); return; }
  luaL_Buffer b;
  if (d->codec & CDR_FROM_LATIN) {
    size_t count = mr_text_to_latin(luaL_buffinitsize(L, &b, n), s, n);
    if (count == SIZE_MAX) mr_dec_raise(d, "DATA_CONVERSION", DATA_CONVERSION, "a string that is not UTF-8, or has characters beyond ISO 8859-1");
    luaL_pushresultsize(&b, count);
    return;
  }
  char *to = luaL_buffinitsize(L, &b, 2 * n);
  luaL_pushresultsize(&b, mr_text_from_latin(to, s, n));
}

/* One octet is no UTF-8 if it is above ASCII; peers that send one nevertheless mean ISO 8859-1. So do those that send many chars. */
void mr_get_char(mr_dec *d) {
  const char *p = mr_in_take(&d->in, 1, 1);
  if (!p) return;
  const raw_value *kept = mr_kept_char(d, *p);
  if (PORT_LIKELY(kept != NULL)) raw_push(d->L, RAW_SHORT, kept->bits);
  else if (!(*p & 0x80)) mr_push_new_text(d, p, 1, (unsigned char)*p);
  else if (d->codec & CDR_FROM_LATIN) lua_pushlstring(d->L, p, 1);
  else push_converted(d, p, 1);
}

void mr_get_string(mr_dec *d, const mr_type *t) {
  size_t n;
  const char *s = mr_in_text(&d->in, &n);
  if (PORT_UNLIKELY(!s)) return;
  if (PORT_UNLIKELY(t->n && n > t->n)) mr_dec_raise(d, "MARSHAL", 0, "a string longer than its type allows");
  push_converted(d, s, n);
}

void mr_get_octets(mr_dec *d, const mr_type *t) {
  size_t n = t->n;
  const char *s = t->fixed ? mr_in_take(&d->in, 1, n) : mr_in_octets(&d->in, &n);
  if (!s) return;
  if (!t->fixed && t->n && n > t->n) mr_dec_raise(d, "MARSHAL", 0, "a sequence longer than its type allows");
  if (t->kind == TK_CHARS && !(d->codec & CDR_FROM_LATIN)) push_converted(d, s, n);
  else if (t->kind == TK_OCTETS && d->env->buffers) mr_bulk_octets(d->L, s, n);
  else lua_pushlstring(d->L, s, n);
}

/* ---- wide ---- */

static void check_wide(mr_dec *d) {
  if ((d->codec & CDR_MINOR) == 0) mr_dec_raise(d, "MARSHAL", 0, "GIOP 1.0 has no wide characters");
  if (d->codec & CDR_UTF16) return;
  if (d->codec & CDR_SERVER) mr_dec_raise(d, "BAD_PARAM", 23, "wide characters, for which the client named no code set");
  mr_dec_raise(d, "INV_OBJREF", 1, "wide characters, for which the reference names no code set");
}

static int is_new(const mr_dec *d) { return (d->codec & CDR_MINOR) >> CDR_MINOR_SHIFT >= 2; }

static void push_wide(mr_dec *d, const char *s, size_t units, int big) {
  luaL_Buffer b;
  char *to = luaL_buffinitsize(d->L, &b, 3 * units + 1);
  size_t n = mr_text_from_utf16(to, s, units, big);
  if (n == SIZE_MAX) mr_dec_raise(d, "DATA_CONVERSION", DATA_CONVERSION, "UTF-16 with half of a pair");
  luaL_pushresultsize(&b, n);
}

/* GIOP 1.2: octets, perhaps with a mark of their order before them, which counts for no bound (0: none). */
static void push_marked(mr_dec *d, const char *s, size_t n, int one, size_t bound) {
  int big = 1;
  if (n % 2) mr_dec_raise(d, "MARSHAL", 0, "UTF-16 of an odd number of bytes");
  if (n >= (one ? 4 : 2) && (memcmp(s, "\xff\xfe", 2) == 0 || memcmp(s, "\xfe\xff", 2) == 0)) {
    big = *s == '\xfe';
    s += 2;
    n -= 2;
  }
  if (bound && n / 2 > bound) mr_dec_raise(d, "MARSHAL", 0, "a wstring longer than its type allows");
  if (one && n != 2) mr_dec_raise(d, "MARSHAL", 0, "a wchar that is not one unit of UTF-16");
  push_wide(d, s, n / 2, big);
}

void mr_get_wchar(mr_dec *d) {
  check_wide(d);
  if (is_new(d)) {
    size_t n = mr_in_u8(&d->in);
    const char *s = mr_in_take(&d->in, 1, n);
    if (s) push_marked(d, s, n, 1, 0);
    return;
  }
  const char *s = mr_in_take(&d->in, 2, 2);
  if (s) push_wide(d, s, 1, !(d->codec & CDR_LITTLE));
}

/* The bound is one of characters, which are units of UTF-16 here. */
void mr_get_wstring(mr_dec *d, const mr_type *t) {
  check_wide(d);
  size_t n = mr_in_u32(&d->in);
  if (is_new(d)) {
    const char *s = mr_in_take(&d->in, 1, n);
    if (!s) return;
    push_marked(d, s, n, 0, t->n);
    return;
  }
  if (n > mr_in_left(&d->in) / 2) { mr_in_fail(&d->in, "the bytes end before the value does"); return; }
  const char *s = n ? mr_in_take(&d->in, 2, 2 * n) : NULL;
  if (n == 0 || (s && (s[2 * n - 1] || s[2 * n - 2]))) mr_dec_raise(d, "MARSHAL", 0, "a wstring without the zero that ends it");
  if (!s) return;
  if (t->n && n - 1 > t->n) mr_dec_raise(d, "MARSHAL", 0, "a wstring longer than its type allows");
  push_wide(d, s, n - 1, !(d->codec & CDR_LITTLE));
}

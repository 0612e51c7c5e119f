/* giop: reading messages. See giop.h. */
#include "cdr/giop.h"

#include <string.h>

static size_t place(const mr_in *in) { return (size_t)(in->at - in->origin); }

static mr_slice octets(mr_in *in) {
  mr_slice s;
  s.p = mr_in_octets(in, &s.len);
  return s.p ? s : (mr_slice){ "", 0 };
}

/* Names have no zero inside: nobody agrees on what they mean then. */
static mr_slice text(mr_in *in) {
  mr_slice s;
  s.p = mr_in_text(in, &s.len);
  if (!s.p) return (mr_slice){ "", 0 };
  if (memchr(s.p, '\0', s.len)) mr_in_fail_at(in, s.p - 4, "a string has a zero byte inside");   /* the place is its length's */
  return s;
}

/* ---- headers ---- */

int64_t mr_giop_length(const char *p, size_t len, const char **why) {
  const unsigned char *b = (const unsigned char *)p;
  if (memcmp(p, "GIOP", len < 4 ? len : 4) != 0) return *why = "it does not begin with \"GIOP\"", -1;
  if (len > 4 && b[4] != 1) return *why = "its major version is not 1", -1;
  if (len > 5 && b[5] > 2) return *why = "its version is above 1.2", -1;
  if (len < GIOP_HEADER) return 0;
  return GIOP_HEADER + (int64_t)cdr_load32(p + GIOP_SIZE_AT, b[GIOP_FLAGS_AT] & GIOP_LITTLE);
}

/* ---- what requests are for ---- */

int mr_giop_profile_key(mr_slice profile, mr_slice *key) {
  mr_in in;
  if (!profile.len) return 0;
  mr_in_begin(&in, profile.p, profile.len, 1, *profile.p & 1);
  if (mr_in_u8(&in) != 1) return 0;              /* IIOP 1.x */
  mr_in_u8(&in);
  text(&in);
  mr_in_u16(&in);
  *key = octets(&in);
  return !in.bad;
}

/* A reference in a request: the key is that of the profile the index tells. */
static void reference(mr_in *in, mr_giop *g) {
  g->index = mr_in_u32(in);
  g->reference = place(in);
  text(in);
  uint32_t n = mr_in_u32(in);
  if (g->index >= n) mr_in_fail(in, "the index of a profile is beyond the reference's profiles");
  for (uint32_t i = 0; i < n && !in->bad; i++) {
    uint32_t tag = mr_in_u32(in);
    mr_slice data = octets(in);
    if (i == g->index && tag == GIOP_TAG_IIOP && !in->bad) g->has_key = mr_giop_profile_key(data, &g->key);
  }
}

static void target(mr_in *in, mr_giop *g) {
  const char *at = in->at;
  g->addressing = g->minor < 2 ? GIOP_KEY : mr_in_u16(in);
  switch (g->addressing) {
    case GIOP_KEY:
      g->key = octets(in);
      g->has_key = 1;
      break;
    case GIOP_PROFILE:
      g->tag = mr_in_u32(in);
      g->profile = octets(in);
      if (!in->bad && g->tag == GIOP_TAG_IIOP) g->has_key = mr_giop_profile_key(g->profile, &g->key);
      break;
    case GIOP_REFERENCE: reference(in, g); break;
    default:
      mr_in_fail_at(in, at, "an unknown way to address the object");
  }
}

/* ---- messages ---- */

static int may_be_fragmented(const mr_giop *g) {
  if (g->type == GIOP_LOCATE_REQUEST || g->type == GIOP_LOCATE_REPLY) return g->minor == 2;
  return g->type == GIOP_REQUEST || g->type == GIOP_REPLY || g->type == GIOP_FRAGMENT;
}

/* Steps over them; each takes eight bytes at least, so a lying count ends at the end of the message. */
static void contexts(mr_in *in, mr_giop *g) {
  g->ncontexts = mr_in_u32(in);
  g->contexts = g->ncontexts ? place(in) : 0;
  for (uint32_t i = 0; i < g->ncontexts && !in->bad; i++) {
    mr_in_u32(in);
    octets(in);
  }
}

static void flags(mr_in *in, mr_giop *g) {
  g->response = mr_in_u8(in);
  g->response = !(g->response & 1) ? 0 : g->minor < 2 || g->response & 2 ? 3 : 1;
  if (g->minor > 0)
    for (int i = 0; i < 3; i++) mr_in_u8(in);
}

static void request(mr_in *in, mr_giop *g) {
  if (g->minor < 2) contexts(in, g);
  g->id = mr_in_u32(in);
  flags(in, g);
  target(in, g);
  g->operation = text(in);
  if (g->minor < 2) octets(in);            /* the principal, which nobody uses */
  else contexts(in, g);
}

static void reply(mr_in *in, mr_giop *g) {
  static const uint32_t last[] = { GIOP_LOCATION_FORWARD, GIOP_LOCATION_FORWARD, GIOP_NEEDS_ADDRESSING };
  if (g->minor < 2) contexts(in, g);
  g->id = mr_in_u32(in);
  const char *at = in->at;
  g->status = mr_in_u32(in);
  if (g->status > last[g->minor]) mr_in_fail_at(in, at, "an unknown status of a reply");
  if (g->minor == 2) contexts(in, g);
}

static void locate_reply(mr_in *in, mr_giop *g) {
  static const uint32_t last[] = { GIOP_OBJECT_FORWARD, GIOP_OBJECT_FORWARD, GIOP_LOC_NEEDS_ADDRESSING };
  g->id = mr_in_u32(in);
  const char *at = in->at;
  g->status = mr_in_u32(in);
  if (g->status > last[g->minor]) mr_in_fail_at(in, at, "an unknown status of a locate reply");
}

/* A message that goes on in fragments: what lies where is known when they are here. In 1.2 the id always is. */
static void beginning(mr_in *in, mr_giop *g) {
  if (g->minor == 2) g->id = mr_in_u32(in);
}

static void header(mr_in *in, mr_giop *g) {
  const char *why, *p = in->origin;
  size_t len = mr_in_left(in);
  int64_t n = mr_giop_length(p, len, &why);
  if (n <= 0) return mr_in_fail_at(in, len < GIOP_HEADER ? in->end : p, n < 0 ? why : "a header has 12 bytes");
  if (p[GIOP_MINOR_AT] == 1 && (p[GIOP_FLAGS_AT] & GIOP_SEAMS) && (uint64_t)n < len) in->end = in->stop = p + (len = (size_t)n);
  if ((uint64_t)n != len) return mr_in_fail_at(in, p + GIOP_SIZE_AT, "its size is not what its header says");
  g->minor = (unsigned char)p[GIOP_MINOR_AT];
  g->little = p[GIOP_FLAGS_AT] & GIOP_LITTLE;
  g->more = g->minor > 0 && p[GIOP_FLAGS_AT] & GIOP_MORE;
  g->type = (unsigned char)p[GIOP_TYPE_AT];
  if (g->type >= GIOP_TYPES - (g->minor == 0)) return mr_in_fail_at(in, p + GIOP_TYPE_AT, "an unknown type of message");
  if (g->more && !may_be_fragmented(g)) return mr_in_fail_at(in, p + GIOP_TYPE_AT, "a message of this type can't be fragmented");
  mr_in_begin(in, p, len, GIOP_HEADER, g->little);
}

/* 1.2 bodies of requests and replies begin at a multiple of 8, if there is one. */
static void body(const mr_in *in, mr_giop *g) {
  size_t len = (size_t)(in->end - in->origin);
  g->body = place(in);
  if (g->minor == 2 && !g->more && (g->type == GIOP_REQUEST || g->type == GIOP_REPLY)) g->body = (g->body + 7) & ~(size_t)7;
  if (g->body > len) g->body = len;
}

int mr_giop_parse(mr_giop *g, const char *p, size_t len, const char **why, size_t *offset) {
  mr_in in;
  mr_in_begin(&in, p, len, 0, 0);
  memset(g, 0, sizeof *g);
  header(&in, g);
  if (!in.bad) {
    if (g->more) beginning(&in, g);
    else switch (g->type) {
      case GIOP_REQUEST: request(&in, g); break;
      case GIOP_REPLY: reply(&in, g); break;
      case GIOP_CANCEL: g->id = mr_in_u32(&in); break;
      case GIOP_LOCATE_REQUEST: g->id = mr_in_u32(&in); target(&in, g); break;
      case GIOP_LOCATE_REPLY: locate_reply(&in, g); break;
      case GIOP_FRAGMENT: beginning(&in, g); break;
      default: break;
    }
    body(&in, g);
  }
  *why = in.bad;
  *offset = in.bad ? (size_t)(in.bad_at - p) : 0;
  return !in.bad;
}

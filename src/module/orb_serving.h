/*
 * orb_serving: the record that a pool's ordinary requests are served by, which orb_serve.c keeps. orb_serve_told.c serves those of a broker with
 * interceptors in the place of its `execute`.
 */
#ifndef MODULE_ORB_SERVING_H
#define MODULE_ORB_SERVING_H

#include "module/orb.h"
#include "module/serving.h"

enum { BEFORE = 1, DURING, AFTER };              /* job.phase, see dispatch.lua */

#define FIELDS(F) \
  F(connection) F(asked) F(nunfinished) F(passed) F(incompatible) F(codec) F(bits) F(limit) F(response) F(phase) F(call) F(silent) \
  F(servant) F(forward) F(calls) F(dynamic) F(plain) F(arguments) F(results) F(__index) \
  F(told) F(fast) F(flat) F(request_id) F(def) F(_point) F(_reached) F(_at) F(_args) F(_results) F(_contexts) F(_message) F(_heard) \
  F(_job) F(_entry) F(_call) F(_def) F(_key)
enum { BEFORE_FIELDS = MR_NSERVING - 1, FIELDS(MR_F_NUMBER) NFIELDS };

enum parts { ENTRY, CALL, ARGUMENTS, RESULTS, KEY, OPERATION, PARTS };
enum { ROWS = 128, TOLD_AT = NFIELDS + PARTS * ROWS };         /* in the list: the interceptors' list, and an info, if there are any */

typedef struct row { uint32_t hash; mr_program *arguments, *results; mr_slot method; } row;   /* results NULL: it is empty */
typedef struct mr_serving {
  uintptr_t tag;
  raw_table *list;
  mr_slot slots[NFIELDS];
  row rows[ROWS];
  mr_slice in, out;                              /* the request that is about to be decoded, the reply that is about to be written; p NULL: none */
  size_t body;                                   /* of the request: where its arguments begin */
  mr_program *arguments;
  int told;                                      /* there are interceptors */
  uint32_t ncontexts;
} mr_serving;

/* What the record begins with, so that no other userdata is taken for one. */
static inline uintptr_t mr_serving_tag(const mr_serving *s) { return (uintptr_t)mr_orb_serving ^ (uintptr_t)s; }

static inline mr_serving *mr_serving_at(lua_State *L, int idx) {
  mr_serving *s = lua_rawlen(L, idx) >= sizeof *s ? (mr_serving *)lua_touserdata(L, idx) : NULL;
  if (!s || s->tag != mr_serving_tag(s)) luaL_argerror(L, idx, "record of a pool's requests expected");
  return s;
}

int mr_serving_tells(mr_serving *s);              /* may interceptors be told of this request in C? */
int mr_serve_told(lua_State *L);                  /* as execute in orb_serve.c, with the object's entry as the last argument */

#endif

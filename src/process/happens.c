/*
 * happens: see happens.h.
 *
 * Objects without names get numbers as they are first mentioned, so that two runs of one schedule say the same. Those that were seen first are
 * remembered by their addresses: one that is gone may pass its number on to the next one there.
 */
#include "process/happens.h"
#include "base/embedded.h"
#include "base/show.h"
#include "process/rt.h"
#include "process/strand.h"

#include <stdio.h>
#include <string.h>

enum { NUMBERED = 256, LEVELS = 100 };
static struct { const mr_shared *o; const mr_sharetype *type; } numbered[NUMBERED];
static unsigned nnumbered;

/* Among those of its type, from 1 on; 0: there were too many. */
static unsigned number_of(const mr_shared *o) {
  unsigned number = 1;
  for (unsigned i = 0; i < nnumbered; i++) {
    if (numbered[i].o == o && numbered[i].type == o->type) return number;
    number += numbered[i].type == o->type;
  }
  if (nnumbered == NUMBERED) return 0;
  numbered[nnumbered].o = o;
  numbered[nnumbered++].type = o->type;
  return number;
}

int mr_happens_at(lua_State *L, int level, char *buf, size_t size) {
  lua_Debug ar;
  buf[0] = 0;
  for (int most = level + LEVELS; level < most && lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline <= 0 || (mr_own_source(ar.source) && buf[0])) continue;
    snprintf(buf, size, "%s:%d", ar.short_src, ar.currentline);
    if (!mr_own_source(ar.source)) break;
  }
  return buf[0] != 0;
}

static void say_who(const mr_fiber *f, char *buf, size_t size) {
  const mr_proc *p = mr_proc_of(f);
  char name[52], fiber[80];
  mr_fiber_describe(f, fiber, sizeof fiber);
  int n = snprintf(buf, size, "#%llu", (unsigned long long)p->job.id);
  if (p->kind == PROC_MAIN) n += snprintf(buf + n, size - (size_t)n, " main");
  if (p->name) n += snprintf(buf + n, size - (size_t)n, " '%s'", mr_show(name, sizeof name, p->name));
  snprintf(buf + n, size - (size_t)n, "%s", fiber);
}

mr_replay_event *mr_happens(mr_fiber *f, lua_State *L, const char *does) {
  mr_replay_event *e = mr_replay_note();
  if (!e) return NULL;
  say_who(f, e->who, sizeof e->who);
  snprintf(e->does, sizeof e->does, "%s", does);
  if (L) mr_happens_at(L, 0, e->at, sizeof e->at);
  return e;
}

void mr_happens_add(mr_replay_event *e, const char *text) {
  size_t n = strlen(e->does);
  snprintf(e->does + n, sizeof e->does - n, "%s", text);
}

void mr_happens_with(mr_replay_event *e, mr_shared *o) {
  char text[160] = "", shown[64];
  if (o->type == mr_proc_type) {
    const mr_proc *p = (const mr_proc *)o;
    if (p->name) snprintf(text, sizeof text, " #%llu '%s'", (unsigned long long)p->job.id, mr_show(shown, sizeof shown, p->name));
    else snprintf(text, sizeof text, " #%llu", (unsigned long long)p->job.id);
  } else if (strcmp(o->type->name, "fiber") == 0) {
    snprintf(text, sizeof text, " fiber #%llu", (unsigned long long)((const mr_strand *)(const void *)((const char *)o - offsetof(mr_strand, shared)))->id);
  } else {
    if (mr_hooks.describe && strcmp(o->type->name, "channel") == 0) mr_hooks.describe(o, text, sizeof text);
    if (strchr(text, '\'')) memmove(text, text + 2, strlen(text + 2) + 1);              /* without its "on" */
    else snprintf(text, sizeof text, " %s %u", o->type->name, number_of(o));
  }
  mr_happens_add(e, text);
}

void mr_happens_last(mr_fiber *f, const char *failed) {
  char line[80];
  mr_replay_event *e = mr_happens(f, NULL, failed ? "fails: " : "ends");
  if (!e) return;
  if (failed) {
    snprintf(line, sizeof line, "%.*s", (int)strcspn(failed, "\n"), failed);
    char shown[sizeof e->does];
    mr_happens_add(e, mr_show(shown, sizeof shown, line));
  }
  mr_replay_noted();
}

/*
 * process: birth, end, and those who wait for the end.
 *
 * A process is born as a packed message (function and arguments) in a run queue; the worker that first runs it gives it
 * a state. At its end, in this order: traceback, pending to-be-closed variables, results or error packed, finalisers,
 * then the end is published and waiters wake. So whoever learns of the end finds its memory returned and its finalisers run.
 *
 * `status` becomes PROC_DONE or PROC_FAILED under p->lock; `result`, `text` and `trace` do not change after that.
 */
#include "base/rank.h"
#include "base/show.h"
#include "observe/log.h"
#include "process/rt.h"
#include "process/control.h"
#include "process/failures.h"
#include "process/group.h"
#include "process/names.h"
#include "process/strand.h"
#include "run/seat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const mr_sharetype *mr_proc_type;
mr_processes mr_all = { .life = PORT_LOCK(MR_RANK_LIFE) };

/* ---- records ---- */

/*
 * They are taken and given back as often as states, so they are chunks of the same pool, with a kind of their own; the record begins
 * with the cache line behind the chunk's header. LeakSanitizer does not look there for pointers: with it they are malloc's.
 */
#ifdef PORT_ASAN
static mr_proc *record_new(void) { return port_lines_new(sizeof(mr_proc)); }
static void record_free(mr_proc *p) { port_lines_free(p); }
#else
static unsigned record_kind(void) {
  static atomic_uint known;
  unsigned kind = atomic_load_explicit(&known, memory_order_acquire);   /* what the pool wrote of the kind is seen, too */
  if (PORT_LIKELY(kind)) return kind;
  int own = mr_pool_kind_new(PORT_CACHELINE + sizeof(mr_proc));
  if (own < 0) return mr_pool_kind(PORT_CACHELINE + sizeof(mr_proc));
  atomic_store_explicit(&known, (unsigned)own, memory_order_release);
  return (unsigned)own;
}

static mr_proc *record_new(void) {
  char *c = (char *)mr_pool_get(record_kind());
  return c ? memset(c + PORT_CACHELINE, 0, sizeof(mr_proc)) : NULL;
}

static void record_free(mr_proc *p) { mr_pool_put((mr_chunk *)(void *)((char *)p - PORT_CACHELINE)); }
#endif

/* It has not become anybody's, or nobody's any more. */
void mr_proc_free(mr_proc *p) {
  free(p->name);
  free(p->text);
  free(p->trace);
  record_free(p);
}

/* ---- registry ---- */

/* Not at every start of the runtime: failed processes stay listed as long as there are handles. */
void mr_proc_setup(void) {
  for (int i = 0; i < MR_SHARDS; i++) {
    port_lock_rank(&mr_all.shard[i].lock, MR_RANK_SHARD);
    mr_all.shard[i].head.live_next = mr_all.shard[i].head.live_prev = &mr_all.shard[i].head;
  }
}

static void list(mr_proc *p) {
  unsigned at = (unsigned)(p->job.id % MR_SHARDS);
  mr_proc *head = &mr_all.shard[at].head;
  port_acquire(&mr_all.shard[at].lock);
  p->live_next = head;
  p->live_prev = head->live_prev;
  head->live_prev->live_next = p;
  head->live_prev = p;
  mr_all.shard[at].spawned++;
  MR_CHECK_SOME(16, mr_shard_check(at));
  port_unlock(&mr_all.shard[at].lock);
}

static void unlist(mr_proc *p) {
  unsigned at = (unsigned)(p->job.id % MR_SHARDS);
  port_acquire(&mr_all.shard[at].lock);
  if (p->live_next) {
    p->live_next->live_prev = p->live_prev;
    p->live_prev->live_next = p->live_next;
    p->live_next = p->live_prev = NULL;
    mr_all.shard[at].sent += p->sent;
    mr_all.shard[at].received += p->received;
    mr_all.shard[at].cpu += p->job.cpu;
  }
  MR_CHECK_SOME(16, mr_shard_check(at));
  port_unlock(&mr_all.shard[at].lock);
}

/* (its lock) */
static void each_of(int i, void (*fn)(mr_proc *p, void *ud), void *ud) {
  mr_proc *head = &mr_all.shard[i].head;
  for (mr_proc *p = head->live_next; p != head; p = p->live_next) fn(p, ud);
}

void mr_shard_each(int i, void (*fn)(mr_proc *p, void *ud), void *ud) {
  port_acquire(&mr_all.shard[i].lock);
  each_of(i, fn, ud);
  port_unlock(&mr_all.shard[i].lock);
}

void mr_proc_each(void (*fn)(mr_proc *p, void *ud), void *ud) {
  for (int i = 0; i < MR_SHARDS; i++) mr_shard_each(i, fn, ud);
}

/* Who ends is taken out and counted under the lock: so nothing is missed, or counted twice. */
void mr_shard_totals(int i, void (*fn)(mr_proc *p, void *ud), mr_totals *t) {
  port_acquire(&mr_all.shard[i].lock);
  t->spawned += mr_all.shard[i].spawned;
  t->sent += mr_all.shard[i].sent;
  t->received += mr_all.shard[i].received;
  t->cpu += mr_all.shard[i].cpu;
  each_of(i, fn, t);
  port_unlock(&mr_all.shard[i].lock);
}

static void close_ticket(mr_fiber *f, void *ud) {
  (void)ud;
  mr_fiber_claim(f);
  mr_wait_inside(f);
}

/* The ticket is claimed for good: nobody will wake it. Its memory stays, as who sent to it may have pointers there. */
void mr_proc_abandon(void) {
  for (int i = 0; i < MR_SHARDS; i++) {
    mr_proc *head = &mr_all.shard[i].head, *next;
    port_acquire(&mr_all.shard[i].lock);
    for (mr_proc *p = head->live_next; p != head; p = next) {
      next = p->live_next;
      if (atomic_load(&p->status) >= PROC_DONE) continue;
      mr_crew_each(&p->job, close_ticket, NULL);
      mr_proc_observe(p);
      mr_names_end(p);
      atomic_store(&p->status, PROC_FAILED);
      mr_job_settle(&p->job);
      mr_control_forget(p);
      if (p->group) mr_group_forget(p->group);
    }
    port_unlock(&mr_all.shard[i].lock);
  }
}

int mr_forked(void) { return mr_run_dead(); }

size_t mr_proc_count(void) { return mr_job_count(); }

/* ---- birth ---- */

mr_proc *mr_proc_new(int kind, const char *name) {
  mr_proc *p = record_new();
  if (!p) return NULL;
  if (name && (p->name = mr_text_copy(name)) == NULL) {
    record_free(p);
    return NULL;
  }
  port_lock_rank(&p->lock, MR_RANK_OBJECT);
  p->shared.type = mr_proc_type;
  atomic_init(&p->shared.refs, 1);
  p->kind = (unsigned char)kind;
  mr_job_init(&p->job, &p->main.fiber, atomic_fetch_add(&mr_all.next_id, 1) + 1, kind == PROC_HOST);
  mr_waitq_init(&p->waiters);
  return p;
}

mr_proc *mr_proc_spawn(const mr_spawn *s, mr_fiber *near, int *err) {
  *err = mr_run_stopping() ? MR_ESTOPPED : MR_OK;
  if (near && near->job->host && mr_host_closed(mr_proc_of(near))) *err = MR_ECLOSING;
  if (*err) {
    mr_exit_yield();
    return NULL;
  }
  mr_proc *p = s->made ? s->made : mr_proc_new(s->kind, s->name);
  if (!p) {
    *err = MR_ENOMEM;
    return NULL;
  }
  if (PORT_UNLIKELY(s->ties) && (*err = mr_control_born(p, mr_proc_of(near), s->ties)) != MR_OK) {
    if (!s->made) mr_release(&p->shared);
    return NULL;
  }
  p->start = s->start;
  p->package = s->package;
  p->limit = s->limit;
  atomic_store_explicit(&p->restarts, s->restarts, memory_order_relaxed);
  p->system_heap = (unsigned char)s->system_heap;
  if (near) {
    p->parent = near->job->id;
    p->log_level = mr_proc_of(near)->log_level;
  }
  mr_retain(&p->shared);                       /* one for the caller, one while it lives */
  if (s->kind == PROC_MAIN) {
    mr_retain(&p->shared);
    mr_all.main = p;
  }
  p->budget = s->budget;
  p->charged = s->budget ? mr_spawn_bytes(s) : 0;
  p->group = s->group;
  if (p->group) mr_group_enter(p->group);
  if (PORT_UNLIKELY(s->level != LEVEL_NORMAL)) mr_job_level(&p->job, s->level);
  list(p);
  mr_job_start(&p->job, near);
  return p;
}

typedef struct { mr_proc *p; int n; } begin_args;

/* (args[, function]): the function is what lay in the state's image */
static int l_begin(lua_State *L) {
  begin_args *a = lua_touserdata(L, 1);
  int function = lua_gettop(L) == 2 ? 2 : 0;
  mr_hooks.start(L, a->p);
  a->n = mr_unpack_with(L, a->p->start, function);
  return a->n;
}

int mr_proc_begin(mr_proc *p, int *nargs) {
  begin_args a = { p, 0 };
  lua_State *L = p->main.L;
  if (!L) return LUA_ERRMEM;                   /* there was none for a state */
  int given = lua_gettop(L);
  p->main.top_ok = 0;                          /* nothing to yield to yet */
  mr_hook_start(L);
  lua_pushcfunction(L, l_begin);
  lua_pushlightuserdata(L, &a);
  if (given) lua_rotate(L, 1, 2);
  int status = lua_pcall(L, 1 + given, LUA_MULTRET, 0);
  mr_message_free(p->start);
  p->start = NULL;
  atomic_store(&p->status, PROC_ALIVE);
  *nargs = a.n - 1;
  return status;
}

/* ---- end ---- */

void mr_mail_drop(mr_mail *m) {
  if (m->kind == MAIL_MESSAGE) mr_message_free(m->u.m);
  m->kind = MAIL_NONE;
}

void mr_mail_back(lua_State *L, mr_mail *m) {
  if (m->kind == MAIL_MESSAGE) mr_message_back(L, m->u.m);
  m->kind = MAIL_NONE;
}

static char *copy_text(const char *s, size_t len) {
  char *c = malloc(len + 1);
  if (c) {
    memcpy(c, s, len);
    c[len] = 0;
  }
  return c;
}

char *mr_text_copy(const char *s) { return copy_text(s, strlen(s)); }

/* error value, process: keeps its text and the value itself, or the text instead when it can't travel */
static int l_failure(lua_State *L) {
  mr_proc *p = lua_touserdata(L, 2);
  mr_packer *packer = mr_kit_of(p->main.fiber.thread)->packer;
  size_t len;
  lua_settop(L, 1);
  if (lua_type(L, 1) == LUA_TTABLE && !luaL_getmetafield(L, 1, "__tostring"))
    lua_pushfstring(L, "(error object is a table value)");
  else
    luaL_tolstring(L, 1, NULL);
  if (lua_type(L, 1) == LUA_TTABLE) {            /* it may bring a traceback from elsewhere */
    lua_pushliteral(L, "traceback");
    if (lua_rawget(L, 1) == LUA_TSTRING) lua_pushfstring(L, "%s\n%s", lua_tostring(L, -2), lua_tostring(L, -1)), lua_replace(L, -3);
    lua_pop(L, 1);
  }
  const char *s = lua_tolstring(L, -1, &len);
  mr_budget *over;
  p->text = copy_text(s, mr_proc_keep(p, len));
  int at = mr_pack(packer, L, 1, 1, "error") == 0 ? 1 : 2;
  if (at == 1 || mr_pack(packer, L, 2, 1, "error") == 0) p->result.u.m = mr_proc_seal(L, p, packer, &over);
  if (p->result.u.m) p->result.kind = MAIL_MESSAGE;
  return 0;
}

/* results, process: packs them */
static int l_results(lua_State *L) {
  mr_proc *p = lua_touserdata(L, -1);
  int n = lua_gettop(L) - 1;
  if (mr_pack(mr_kit_of(p->main.fiber.thread)->packer, L, 1, n, "result") != 0) return lua_error(L);
  mr_budget *over;
  char text[200];
  p->result.u.m = mr_proc_seal(L, p, mr_kit_of(p->main.fiber.thread)->packer, &over);
  if (!p->result.u.m) return luaL_error(L, "%s", mr_proc_over(over, text));
  p->result.kind = MAIL_MESSAGE;
  return 0;
}

static void text_mail(mr_proc *p, const char *text) {
  if (!p->text) p->text = copy_text(text, strlen(text));
  p->result.kind = MAIL_STRING;                /* p->text is the error value */
  p->result.u.str.p = p->text ? p->text : mr_err_text(MR_ENOMEM);
  p->result.u.str.len = strlen(p->result.u.str.p);
}

static int fail(mr_proc *p, lua_State *L) {
  if (lua_type(L, -1) == LUA_TNIL) {           /* error(nil) is a nil error, not no error */
    text_mail(p, "nil");
    p->result.kind = MAIL_NONE;
    return PROC_FAILED;
  }
  lua_pushcfunction(L, l_failure);
  lua_insert(L, -2);
  lua_pushlightuserdata(L, p);
  int status = lua_pcall(L, 2, 0, 0);
  if (status != LUA_OK || p->result.kind == MAIL_NONE) {
    mr_mail_drop(&p->result);
    const char *s = status == LUA_OK ? NULL : lua_tostring(L, -1);   /* LUA_OK: it could not be sealed, and its text is there */
    text_mail(p, s ? s : mr_err_text(MR_ENOMEM));
  }
  return PROC_FAILED;
}

static int collect(mr_proc *p, lua_State *L, int nres) {
  if (nres == 0 || p->group) return PROC_DONE;   /* nobody can ask for a member's results */
  if (nres <= MR_INLINE) {
    int i = 0;
    while (i < nres && mr_scalar_get(L, i - nres, &p->result.u.s[i])) i++;
    if (i == nres) {
      p->result.kind = MAIL_SCALARS;
      p->result.n = (unsigned char)nres;
      return PROC_DONE;
    }
  }
  if (!lua_checkstack(L, 4)) {
    text_mail(p, "too many results");
    return PROC_FAILED;
  }
  lua_pushcfunction(L, l_results);
  lua_insert(L, -nres - 1);
  lua_pushlightuserdata(L, p);
  if (lua_pcall(L, nres + 1, 0, 0) == LUA_OK) return PROC_DONE;
  return fail(p, L);
}

static void wake_waiters(mr_proc *p, mr_fiber *near) {
  for (;;) {
    port_acquire(&p->lock);
    mr_wait *w = p->waiters.next;
    if (w == &p->waiters) {
      port_unlock(&p->lock);
      return;
    }
    mr_waitq_del(w);
    mr_fiber *f = w->fiber;
    int mine = mr_wait_claim(w);
    if (mine) atomic_store(&p->observed, 1);
    port_unlock(&p->lock);
    if (mine) mr_ready(f, MR_WOKEN, near);
  }
}

static void made_to_end(mr_proc *p, int how) {
  mr_cause c;
  p->result.kind = MAIL_ENDED;
  p->result.n = (unsigned char)how;
  mr_cause_of_process(p, &c);
  if (!p->text) p->text = copy_text(c.message, mr_proc_keep(p, strlen(c.message)));
  if (p->kind != PROC_MAIN) mr_proc_observe(p);   /* who made it end knows, but a program must not end without a word */
}

/* It was made to end, and has no error value of its own: who asks for it gets one made of `why`. */
static int ended(mr_proc *p, lua_State *L, int how) {
  if (!p->trace) p->trace = mr_trace(L);
  if (lua_status(L) != LUA_OK) {
    mr_hook_kill(L);
    mr_hooks.reset(L);
  }
  made_to_end(p, how);
  return PROC_FAILED;
}

int mr_proc_outcome(mr_proc *p, int status, int nres) {
  lua_State *L = p->main.L;
  if (!L) {
    text_mail(p, mr_err_text(MR_ENOMEM));
    return PROC_FAILED;
  }
  p->main.top_ok = 0;                          /* from here on nothing can yield */
  p->main.top = L;
  int end, killed = mr_job_ends(&p->job) == JOB_KILLED;
  if (killed || (status != LUA_OK && p->main.fiber.told == TOLD_CLOSED)) {
    end = ended(p, L, killed ? JOB_KILLED : JOB_CANCELLED);
  } else if (status == LUA_OK) {
    end = collect(p, L, nres);
  } else {
    if (!p->trace) p->trace = mr_trace(L);       /* close_here may have taken it */
    if (lua_status(L) != LUA_OK) mr_hooks.reset(L);
    lua_checkstack(L, 8);
    end = fail(p, L);
    if (p->main.fiber.told) mr_proc_observe(p);      /* who made it end knows */
  }
  if (p->main.held_from) mr_hooks.mail_back(&p->main.fiber);
  return end;
}

void mr_proc_finish(mr_proc *p, int status) {
  mr_names_end(p);
  port_acquire(&p->lock);
  atomic_store(&p->status, (unsigned char)status);
  struct mr_asked *looks = mr_looks_take(p);
  port_unlock(&p->lock);
  if (PORT_UNLIKELY(looks != NULL)) mr_looks_over(looks, p);
  wake_waiters(p, p->job.host ? NULL : &p->main.fiber);
}

void mr_proc_close(mr_thread *t, mr_proc *p) {
  if (PORT_UNLIKELY(mr_run_dead())) mr_exit(p->end != PROC_DONE);
  mr_group *group = p->group;
  if (PORT_UNLIKELY(mr_job_ends(&p->job) == JOB_KILLED) && p->end == PROC_DONE) {   /* its main function had returned, others had not */
    mr_mail_drop(&p->result);
    made_to_end(p, JOB_KILLED);
    p->end = PROC_FAILED;
  }
  int end = p->end;
  if (PORT_UNLIKELY(p->exits) && mr_job_ends(&p->job) != JOB_KILLED) mr_hooks.exits(p);
  if (p->main.L) {
    mr_state_close(p, mr_job_ends(&p->job) == JOB_KILLED, &mr_kit_of(t)->ended);
    t->left = 1;
  }
  if (p->known) mr_known_drop(p);
  if (p->main.set) free(p->main.set);
  if (p->main.fiber.crew) mr_strands_free(p->main.fiber.crew);
  if (PORT_UNLIKELY(p->job.seats != NULL)) mr_seats_leave(&p->job);
  if (p->start) {
    mr_message_free(p->start);
    p->start = NULL;
  }
  if (p->package) mr_inherit_release(p->package);
  p->package = NULL;
  atomic_store_explicit(&t->current, NULL, memory_order_relaxed);
  atomic_store_explicit(&p->main.fiber.state, FIBER_DONE, memory_order_relaxed);
  mr_job_settle(&p->job);
  atomic_fetch_add_explicit(&mr_all.ended, 1, memory_order_relaxed);
  if (end != PROC_DONE) atomic_fetch_add_explicit(&mr_all.failed, 1, memory_order_relaxed);
  if (end == PROC_DONE) unlist(p);
  else if (p->kind == PROC_MAIN || group) mr_proc_print(p);
  mr_proc_finish(p, end);
  mr_control_ended(p, end == PROC_FAILED, &p->main.fiber);
  if (group) mr_group_leave(group, &p->main.fiber);
  mr_release(&p->shared);
  if (mr_job_over()) {
    port_event_set(&mr_all.done);
    mr_hosts_notify();
  }
}

void mr_inherit_release(mr_inherit *i) {
  if (atomic_fetch_sub_explicit(&i->refs, 1, memory_order_acq_rel) != 1) return;
  mr_message_free(i->message);
  free(i);
}

/* ---- waiting for the end ---- */

int mr_proc_wait(mr_proc *p, mr_wait *w) {
  port_acquire(&p->lock);
  int ended = atomic_load(&p->status) >= PROC_DONE;
  if (!ended) mr_waitq_add(&p->waiters, w);
  port_unlock(&p->lock);
  return ended;
}

void mr_proc_wait_end(mr_proc *p, mr_wait *w) {
  port_acquire(&p->lock);
  mr_waitq_del(w);
  port_unlock(&p->lock);
}

void mr_proc_observe(mr_proc *p) { atomic_store(&p->observed, 1); }

const char *mr_proc_status(mr_proc *p) { return mr_status_with(p, mr_crew_state(&p->job)); }

const char *mr_status_with(const mr_proc *p, int state) {
  switch (atomic_load(&p->status)) {
    case PROC_DONE: return "done";
    case PROC_FAILED: return "failed";
    case PROC_NEW: return "ready";
  }
  if (state >= 0) {
    return state == CREW_RUNNING ? "running" : state == CREW_QUEUED ? "ready" : "waiting";
  }
  switch (atomic_load(&p->main.fiber.state)) {
    case FIBER_RUNNING: return "running";
    case FIBER_PARKING: return p->kind == PROC_HOST ? "waiting" : "running";   /* it may not be in the queue of what it waits for yet; a host stays PARKING */
    case FIBER_READY: return "ready";
    default: return "waiting";
  }
}

/* ---- failures nobody waited for ---- */

static char *group_failure(const mr_group *g, const char *text, const char *trace) {
  size_t len = strlen(g->failed[0]) + strlen(text) + strlen(trace) + strlen(g->failed[1]) + 2;
  char *line = malloc(len);
  if (line) snprintf(line, len, "%s%s%s%s%s", g->failed[0], text, *trace ? "\n" : "", trace, g->failed[1]);
  return line;
}

static char *plain_failure(const char *who, const char *text, const char *trace) {
  size_t len = strlen(who) + strlen(text) + strlen(trace) + 3;
  char *line = malloc(len);
  if (line) snprintf(line, len, "%s%s\n%s%s", who, text, trace, *trace ? "\n" : "");
  return line;
}

/* Of most it says nothing that the main process, #1, has spawned them. */
static void name_failed(const mr_proc *p, char *buf, size_t size) {
  char by[40] = "", name[64];
  if (p->parent > 1) snprintf(by, sizeof by, p->name ? ", spawned by #%llu" : " (spawned by #%llu)", (unsigned long long)p->parent);
  if (p->kind == PROC_MAIN) snprintf(buf, size, "mare: ");
  else if (p->name) snprintf(buf, size, "mare: process '%s' (#%llu%s) failed: ", mr_show(name, sizeof name, p->name), (unsigned long long)p->job.id, by);
  else snprintf(buf, size, "mare: process #%llu%s failed: ", (unsigned long long)p->job.id, by);
}

char *mr_proc_failure(mr_proc *p) {
  if (atomic_exchange(&p->observed, 1)) return NULL;
  char who[160];
  name_failed(p, who, sizeof who);
  const char *text = p->text ? p->text : mr_err_text(MR_ENOMEM), *trace = p->trace ? p->trace : "";
  char *line = p->group ? group_failure(p->group, text, trace) : plain_failure(who, text, trace);
  mr_failure_note(line ? line : text);
  return line;
}

void mr_proc_print(mr_proc *p) {
  char *line = mr_proc_failure(p);
  if (line) mr_proc_says(p, line);
  free(line);
}

void mr_proc_says(const mr_proc *p, const char *text) {
  if (!mr_log_says(MR_LOG_ERROR, p && p->kind != PROC_HOST ? p->job.id : 0, p ? p->name : NULL, text)) fputs(text, stderr);
}

void mr_proc_destroy(mr_shared *o) {
  mr_proc *p = (mr_proc *)o;
  if (atomic_load(&p->status) == PROC_FAILED) {
    unlist(p);
    mr_proc_print(p);
  }
  mr_mail_drop(&p->result);
  if (PORT_UNLIKELY(p->budget != NULL)) mr_proc_unbudget(p);
  mr_control_free(p);
  mr_proc_free(p);
}

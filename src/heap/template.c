/*
 * template: opens a state at an address of our choice and finds which of its words are pointers.
 *
 * The state is opened three times at one base. The first run tells which allocations survive; in the next two those are
 * packed behind the heap and the others go to a scratch zone, so that the image has no holes. The last two must agree in
 * every byte: what depends on anything but the base (a time, an address outside) shows as a difference. (Lua's hash seed
 * takes in the second of the clock: hence several attempts.)
 *
 * A word is a pointer if its value lies within the image. The base is chosen so that no count, character or float looks
 * like that. A word whose low byte is the tag of a Lua value and whose other bytes nobody wrote could: they may be those of
 * an old pointer. So memory is zeroed before each run, and images move by multiples of ALIGN only, which leaves a low byte
 * as it is. A pointer into the C stack, or a state that is not at rest, is refused. What the bytes can't show (tables keyed
 * by addresses, a hidden pointer) is left to image_check.c.
 *
 * What a process touches whenever it runs - its call records, its stack, and what the opener names by mr_image_near - comes last, side by side and
 * next to what the process will make itself, so that a turn of one among thousands needs few cache lines. Which blocks these are the first run
 * tells; the gaps that lines leave between them are free blocks of the heap.
 */
#include "heap/image.h"
#include "heap/poison.h"
#include "lua/calls.h"
#include "port/port.h"

#include <string.h>

enum {
  KEPT = 256 * 1024,                /* zone of what stays, at the base */
  ZONE = 1024 * 1024,               /* with the scratch zone behind it */
  CALLS = 16384,
  ALIGN = 256,
  SLACK = 640,                      /* room in the first chunk: a small function, its upvalues and two channels fit */
  STACK_LINES = 4,                  /* of a stack: what a small function uses */
  CALL_RECORDS = 2,                 /* of the process's function, and of what it calls and waits in */
  NEAR = 32,                        /* blocks that come last, at most */
  ATTEMPTS = 4
};

typedef struct near_block { size_t call, size, place; } near_block;   /* place: counted from where they begin */

typedef struct template {
  char *base, *kept, *scratch;
  char *near;                       /* where what comes last begins; NULL: not known yet */
  size_t calls, used, live;         /* live: blocks of the scratch zone */
  int recording, broken;
  size_t nnear, near_end, near_stack;   /* so far, counted from `near`; the stack comes last, and most of it is not used */
  near_block last[NEAR];
  unsigned char stays[CALLS];       /* by number of the call: KEPT_NOT … */
} template;
enum { KEPT_NOT, KEPT_FIRST, KEPT_LAST };

/* ---- the allocator while a template is opened: scratch blocks carry the number of their call ---- */

typedef struct scratch_head { size_t call, size; } scratch_head;

static size_t scratch_size(size_t n) { return sizeof(scratch_head) + (n + 7) / 8 * 8; }

static void *scratch_new(template *t, size_t n) {
  scratch_head *p = (scratch_head *)(void *)t->scratch;
  if (scratch_size(n) > (size_t)(t->base + ZONE - t->scratch)) return NULL;
  t->scratch += scratch_size(n);
  *p = (scratch_head){ t->calls, n };
  t->live++;
  return p + 1;
}

static size_t class_size(size_t n) { return n <= MR_ARENA_MAX ? mr_sizeclass_size(mr_sizeclass(n)) : KEPT; }

static char *near_new(template *t) {
  for (size_t i = 0; i < t->nnear; i++)
    if (t->last[i].call == t->calls) return t->near + t->last[i].place;
  return NULL;
}

static void *kept_new(template *t, size_t n) {
  char *p = t->stays[t->calls] == KEPT_LAST ? near_new(t) : NULL;
  if (!p) {
    p = t->kept;
    if (class_size(n) > (size_t)(t->near - p)) return NULL;
    t->kept += class_size(n);
  }
  t->used += n;
  return p;
}

static void *template_new(template *t, size_t n) {
  if (n > KEPT || t->calls == CALLS) return NULL;
  void *p = t->stays[t->calls] && !t->recording ? kept_new(t, n) : scratch_new(t, n);
  if (t->recording) t->stays[t->calls] = KEPT_FIRST;
  t->calls++;
  return p;
}

static void template_free(template *t, void *p) {
  if ((char *)p < t->base + KEPT) {
    t->broken = 1;                  /* it stayed last time */
    return;
  }
  t->live--;
  if (t->recording) t->stays[((scratch_head *)p)[-1].call] = KEPT_NOT;
}

static void *template_alloc(void *ud, void *ptr, size_t osize, size_t nsize) {
  template *t = ud;
  if (nsize == 0) {
    if (ptr) template_free(t, ptr);
    return NULL;
  }
  void *p = template_new(t, nsize);
  if (!p) {
    t->broken = 1;
    return ptr && nsize <= osize ? ptr : NULL;
  }
  if (ptr) {
    memcpy(p, ptr, osize < nsize ? osize : nsize);
    template_free(t, ptr);
  }
  return p;
}

/* ---- what comes last ---- */

/* The live scratch block that p is in, or NULL. */
static const scratch_head *scratch_of(const template *t, const void *p) {
  const char *at = t->base + KEPT;
  while (at < t->scratch) {
    const scratch_head *h = (const scratch_head *)(const void *)at;
    at += scratch_size(h->size);
    if ((const char *)p >= (const char *)(h + 1) && (const char *)p < at) return t->stays[h->call] == KEPT_NOT ? NULL : h;
  }
  return NULL;
}

/* A few bytes lie in one line, more begin with one. The first is at the start of one. */
static size_t near_place(size_t at, size_t n) {
  size_t line = (at + PORT_CACHELINE - 1) / PORT_CACHELINE * PORT_CACHELINE;
  return n > PORT_CACHELINE || at + n > line ? line : at;
}

static void near_add(template *t, const void *p, size_t n) {
  const scratch_head *h = scratch_of(t, p);
  if (!h || t->stays[h->call] != KEPT_FIRST || t->nnear == NEAR) return;
  t->stays[h->call] = KEPT_LAST;
  size_t place = t->near_end % PORT_CACHELINE ? near_place(t->near_end, n) : t->near_end;
  t->last[t->nnear++] = (near_block){ h->call, h->size, place };
  t->near_end = place + class_size(h->size);
}

void mr_image_near(lua_State *L, const void *p, size_t n) {
  void *ud;
  if (lua_getallocf(L, &ud) != template_alloc) return;
  template *t = ud;
  if (t->recording) near_add(t, p, n);
}

/* If Lua's structures are not what we think, this finds no blocks, or others: that does no harm. */
static void near_add_own(template *t, lua_State *L) {
  const raw_call *c = (const raw_call *)(const void *)((const raw_state *)L)->call;
  for (int i = 0; i < CALL_RECORDS && scratch_of(t, c) && scratch_of(t, (const char *)c + sizeof *c - 1) && (c = c->next) != NULL; i++)
    near_add(t, c, PORT_CACHELINE);
  t->near_stack = t->near_end;
  near_add(t, (const void *)((const raw_running *)(const void *)L)->stack, STACK_LINES * PORT_CACHELINE);
}

/* What comes first is as long as it is: what comes last begins with the next line. */
static void near_begin(template *t) {
  size_t first = sizeof(mr_heap);
  for (const char *at = t->base + KEPT; at < t->scratch;) {
    const scratch_head *h = (const scratch_head *)(const void *)at;
    if (t->stays[h->call] == KEPT_FIRST) first += class_size(h->size);
    at += scratch_size(h->size);
  }
  t->near = t->base + (first + PORT_CACHELINE - 1) / PORT_CACHELINE * PORT_CACHELINE;
}

/* The gaps become free blocks. */
static void near_gaps(const template *t, mr_heap *h) {
  size_t at = 0;
  mr_arena_give(h, t->kept, (size_t)(t->near - t->kept));
  for (size_t i = 0; i < t->nnear; i++) {
    mr_arena_give(h, t->near + at, t->last[i].place - at);
    at = t->last[i].place + class_size(t->last[i].size);
  }
}

/* ---- opening ---- */

/* (n) calls n deep, so that there are as many call records */
static int l_deep(lua_State *L) {
  lua_Integer n = lua_tointeger(L, 1);
  if (n > 1) {
    lua_pushcfunction(L, l_deep);
    lua_pushinteger(L, n - 1);
    lua_call(L, 1, 0);
  }
  return 0;
}

/* Never inlined: the address of a local variable goes into the hash seed, and must be the same each time. */
static PORT_NOINLINE lua_State *template_open(template *t, mr_opener open) {
  memset(t->base, 0, t->near ? (size_t)(t->near - t->base) + t->near_end : 0);
  memset(t->base + KEPT, 0, (size_t)(t->scratch - t->base) - KEPT);
  t->kept = t->base + sizeof(mr_heap);
  t->scratch = t->base + KEPT;
  t->calls = t->used = t->live = 0;
  t->broken = 0;
  lua_State *L = open(template_alloc, t);
  if (!L || t->broken) return NULL;
  if (lua_gettop(L) != 0 || lua_status(L) != LUA_OK) return NULL;
  lua_gc(L, LUA_GCCOLLECT, 0);
  lua_pushcfunction(L, l_deep);
  lua_pushinteger(L, CALL_RECORDS);
  return lua_pcall(L, 1, 0, 0) == LUA_OK && !t->broken ? L : NULL;
}

static int record(template *t, mr_opener open) {
  memset(t->stays, 0, sizeof t->stays);
  t->nnear = t->near_end = 0;
  t->recording = 1;
  lua_State *L = template_open(t, open);
  t->recording = 0;
  if (!L) return 0;
  near_add_own(t, L);
  near_begin(t);
  return t->near + t->near_end <= t->base + KEPT;
}

static int pack(template *t, mr_opener open, mr_image *im) {
  lua_State *L = template_open(t, open);
  if (!L || t->live) return 0;
  im->state = (size_t)((char *)L - t->base);
  im->size = (size_t)(t->near - t->base) + t->near_end;
  im->near = (size_t)(t->near - t->base);
  im->near_end = im->near + t->near_stack;
  im->used = t->used;
  lua_setallocf(L, mr_heap_alloc, t->base);
  return im->state < im->size;
}

/*
 * A multiple of ALIGN, but of no higher power of two than twice that: so the same field of many states falls into an eighth of the sets of the
 * processor's cache at least, and what is touched often, side by side in more than eight lines, into all alike.
 */
static int choose_chunk(mr_image *im) {
  size_t n = (im->size + SLACK + ALIGN - 1) / ALIGN;
  im->chunk = (n % 4 ? n : n + 1) * ALIGN;
  int kind = mr_pool_kind_new(im->chunk);
  im->kind = (unsigned)kind;
  return kind >= 0;
}

static void write_heap(const template *t, const mr_image *im) {
  mr_heap *h = (mr_heap *)(void *)t->base;
  mr_heap_init(h, (mr_chunk){NULL, (uint32_t)im->chunk, im->kind}, 0);
  h->bump = t->base + im->size;
  h->room -= (ptrdiff_t)t->used;
  near_gaps(t, h);
  MR_UNPOISON(h, im->chunk);
}

/* ---- pointers ---- */

static int points_into_stack(uint64_t w) {
  char here;
  return w - ((uint64_t)(uintptr_t)&here - 256 * 1024) < 512 * 1024;
}

/* Writes offsets over pointers. */
static int find_pointers(mr_image *im, const char *base) {
  size_t found = 0;
  for (size_t i = 0; i < im->size / 8; i++) {
    uint64_t w = im->words[i] - (uint64_t)(uintptr_t)base;
    if (points_into_stack(im->words[i])) return 0;
    if (w > im->chunk) continue;
    im->words[i] = w;
    im->pointers[i] = ~(uint64_t)0;
    found++;
  }
  return found > 0;
}

static int image_store(mr_image *im, const char *base) {
  if (!mr_image_room(im)) return 0;
  memcpy(im->words, base, im->size);
  return 1;
}

/* ---- */

static int attempt(template *t, mr_opener open, mr_image *im) {
  mr_image again = *im;
  if (!record(t, open) || !pack(t, open, im) || !choose_chunk(im)) return 0;
  write_heap(t, im);
  if (!image_store(im, t->base)) return 0;
  if (pack(t, open, &again) && again.size == im->size && again.state == im->state) {
    write_heap(t, im);
    if (memcmp(im->words, t->base, im->size) == 0 && find_pointers(im, t->base)) return 1;
  }
  port_lines_free(im->words);
  im->words = NULL;
  return 0;
}

/* Addresses that no sane count or character string contains, and where programs and libraries are not loaded. */
static char *zone_reserve(void) {
  static const uint64_t bases[] = {0x5a3c96d10000, 0x4be1937a0000, 0x3d87c59b0000, 0x6e9b71a000};
  for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
    char *p = port_pages_reserve_at((void *)(uintptr_t)bases[i], ZONE);
    if (p) return p;
  }
  return NULL;
}

int mr_image_take(mr_image *im, mr_opener open) {
  if (sizeof(void *) != 8) return 0;
  char *base = zone_reserve();
  if (!base) return 0;
  template *t = port_pages_reserve(sizeof *t, 4096);
  int ok = 0;
  if (t) {
    t->base = t->kept = base;
    t->scratch = base + KEPT;
    for (int i = 0; i < ATTEMPTS && !ok; i++) ok = attempt(t, open, im);
    port_pages_release(t, sizeof *t);
  }
  MR_UNPOISON(base, ZONE);
  port_pages_release(base, ZONE);
  return ok;
}

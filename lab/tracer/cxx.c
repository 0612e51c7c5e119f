/*
 * The C++ operators, under their Itanium names. Where they are built on malloc and free, as in libstdc++ and libc++, they only label the block that
 * the inner call records. An allocator may serve some of them itself (jemalloc, tcmalloc, mimalloc do) and never call our malloc: then the operator
 * is recorded here as a malloc or free. A program that defines its own operators never comes here.
 */
#define _GNU_SOURCE
#include "real.h"
#include "record.h"
#include <dlfcn.h>
#include <stdlib.h>

typedef void *(*new_plain)(size_t);
typedef void *(*new_nothrow)(size_t, const void *);
typedef void *(*new_aligned)(size_t, size_t);
typedef void *(*new_aligned_nothrow)(size_t, size_t, const void *);
typedef void (*delete_plain)(void *);

/*
 * A C program may have loaded a plugin in C++, and libstdc++ with it, into a scope of its own (dlopen without RTLD_GLOBAL): then no library behind us has
 * the operator, and the caller's own dependencies are searched. The library that has it stays loaded, as the caches outlive the plugin, and is asked first
 * from then on: its operators call each other through us.
 */
static void *of_caller(const char *name, void *caller)
{
  static _Atomic(void *) library;
  Dl_info plugin, ours, found;
  void *scope, *f = library ? dlsym(library, name) : NULL;
  if (f) return f;
  if (!dladdr(caller, &plugin) || !dladdr((void *)of_caller, &ours)) return NULL;
  if (!(scope = dlopen(plugin.dli_fname, RTLD_LAZY | RTLD_NOLOAD))) return NULL;
  f = dlsym(scope, name);
  if (f && dladdr(f, &found) && found.dli_fbase != ours.dli_fbase) library = dlopen(found.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  else f = NULL;
  dlclose(scope);
  return f;
}

static void *next(_Atomic(void *) *cache, const char *name, void *caller)
{
  void *f = atomic_load_explicit(cache, memory_order_relaxed);
  if (!f) {
    f = dlsym(RTLD_NEXT, name);
    if (!f) f = of_caller(name, caller);
    if (!f) abort(); /* nobody could have called an operator that no library has */
    atomic_store(cache, f);
  }
  return f;
}

/*
 * new: the label is for the inner call, which uses it up; where it is still there afterwards, nobody called us, and the block is recorded here. The
 * array forms call the others: the outer one is what the program said.
 */
static inline int label_inner(unsigned label)
{
  int outermost = !tr_self.label;
  if (outermost) tr_self.label = (unsigned char)label;
  return outermost;
}

static inline void *finish(void *p, size_t n, unsigned label, int outermost)
{
  int unused = tr_self.label != 0;
  if (!outermost) return p;
  tr_self.label = 0;
  if (unused && p) tr_record_labelled(MTR_MALLOC, (uint64_t)(uintptr_t)p, label, n);
  return p;
}

/* delete: recorded here, because it must be before the call; an inner free of this very block is then passed over. */
static inline void dropping(void *p, unsigned label)
{
  if (!p || tr_self.passed_over == p) return;
  tr_record_labelled(MTR_FREE, (uint64_t)(uintptr_t)p, label, 0);
  tr_self.passed_over = p;
}

#define OPERATOR(name, symbol) TR_EXPORT name __asm__(symbol); name

#define NEW(id, symbol, form) \
  OPERATOR(void *id(size_t n), symbol) { \
    static _Atomic(void *) cache; \
    new_plain f = (new_plain)next(&cache, symbol, __builtin_return_address(0)); \
    if (tr_idle()) return f(n); \
    int outermost = label_inner(form); \
    return finish(f(n), n, form, outermost); \
  }
#define NEW_NOTHROW(id, symbol, form) \
  OPERATOR(void *id(size_t n, const void *tag), symbol) { \
    static _Atomic(void *) cache; \
    new_nothrow f = (new_nothrow)next(&cache, symbol, __builtin_return_address(0)); \
    if (tr_idle()) return f(n, tag); \
    int outermost = label_inner(form); \
    return finish(f(n, tag), n, form, outermost); \
  }
#define NEW_ALIGNED(id, symbol, form) \
  OPERATOR(void *id(size_t n, size_t a), symbol) { \
    static _Atomic(void *) cache; \
    new_aligned f = (new_aligned)next(&cache, symbol, __builtin_return_address(0)); \
    if (tr_idle()) return f(n, a); \
    int outermost = label_inner(form); \
    return finish(f(n, a), n, form, outermost); \
  }
#define NEW_ALIGNED_NOTHROW(id, symbol, form) \
  OPERATOR(void *id(size_t n, size_t a, const void *tag), symbol) { \
    static _Atomic(void *) cache; \
    new_aligned_nothrow f = (new_aligned_nothrow)next(&cache, symbol, __builtin_return_address(0)); \
    if (tr_idle()) return f(n, a, tag); \
    int outermost = label_inner(form); \
    return finish(f(n, a, tag), n, form, outermost); \
  }

NEW(new_one, "_Znwm", MTR_LABEL_NEW)
NEW(new_array, "_Znam", MTR_LABEL_NEW_ARRAY)
NEW_NOTHROW(new_one_nothrow, "_ZnwmRKSt9nothrow_t", MTR_LABEL_NEW)
NEW_NOTHROW(new_array_nothrow, "_ZnamRKSt9nothrow_t", MTR_LABEL_NEW_ARRAY)
NEW_ALIGNED(new_one_aligned, "_ZnwmSt11align_val_t", MTR_LABEL_NEW)
NEW_ALIGNED(new_array_aligned, "_ZnamSt11align_val_t", MTR_LABEL_NEW_ARRAY)
NEW_ALIGNED_NOTHROW(new_one_aligned_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t", MTR_LABEL_NEW)
NEW_ALIGNED_NOTHROW(new_array_aligned_nothrow, "_ZnamSt11align_val_tRKSt9nothrow_t", MTR_LABEL_NEW_ARRAY)

#define DELETE(id, symbol, form, parameters, arguments, type) \
  OPERATOR(void id parameters, symbol) { \
    static _Atomic(void *) cache; \
    void (*f) type = (void (*) type)next(&cache, symbol, __builtin_return_address(0)); \
    if (!tr_idle()) dropping(p, form); \
    f arguments; \
    tr_self.passed_over = NULL; \
  }
#define DELETES(id, letters, form) \
  DELETE(id, letters "Pv", form, (void *p), (p), (void *)) \
  DELETE(id##_sized, letters "Pvm", form, (void *p, size_t n), (p, n), (void *, size_t)) \
  DELETE(id##_nothrow, letters "PvRKSt9nothrow_t", form, (void *p, const void *tag), (p, tag), (void *, const void *)) \
  DELETE(id##_aligned, letters "PvSt11align_val_t", form, (void *p, size_t a), (p, a), (void *, size_t)) \
  DELETE(id##_sized_aligned, letters "PvmSt11align_val_t", form, (void *p, size_t n, size_t a), (p, n, a), (void *, size_t, size_t)) \
  DELETE(id##_aligned_nothrow, letters "PvSt11align_val_tRKSt9nothrow_t", form, (void *p, size_t a, const void *tag), (p, a, tag), \
         (void *, size_t, const void *))

DELETES(delete_one, "_Zdl", MTR_LABEL_NEW)
DELETES(delete_array, "_Zda", MTR_LABEL_NEW_ARRAY)

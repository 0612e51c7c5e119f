/*
 * operators N: the C++ operators by their mangled names: N of each form of new, of sizes 2001, 2002, 1984 (aligned: a multiple, so that nothing is
 * rounded) and 2004, each deleted by the form that belongs to it; then malloc(2005), free.
 */
#include <stdlib.h>

extern void *_Znwm(size_t), *_Znam(size_t), *_ZnwmSt11align_val_t(size_t, size_t), *_ZnamRKSt9nothrow_t(size_t, const void *);
extern void _ZdlPv(void *), _ZdaPv(void *), _ZdlPvSt11align_val_t(void *, size_t), _ZdaPvm(void *, size_t);

int main(int argc, char **argv)
{
  for (int i = argc > 1 ? atoi(argv[1]) : 3; i > 0; i--) {
    _ZdlPv(_Znwm(2001));
    _ZdaPv(_Znam(2002));
    _ZdlPvSt11align_val_t(_ZnwmSt11align_val_t(1984, 64), 64);
    _ZdaPvm(_ZnamRKSt9nothrow_t(2004, ""), 2004);
    free(malloc(2005));
  }
  return 0;
}

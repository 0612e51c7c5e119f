#include "base/error.h"

static const char *const texts[] = {
#define X(code, text) text,
  MR_ERRORS(X)
#undef X
};

const char *mr_err_text(int code) {
  return (code >= 0 && code < MR_NERRORS) ? texts[code] : "unknown error";
}

/* errors: names and texts of errno values. */
#include <stdio.h>
#include <string.h>
#include "port/errors.h"

const char *port_error_name(int err) {
  const char *name = strerrorname_np(err);
  return name ? name : "EUNKNOWN";
}

const char *port_error_text(int err, char *buf, size_t size) { return strerror_r(err, buf, size); }

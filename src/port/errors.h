/* errors: the system's error numbers as symbolic names and texts. */
#ifndef PORT_ERRORS_H
#define PORT_ERRORS_H

#include <stddef.h>

const char *port_error_name(int err);                          /* "ENOENT"; "EUNKNOWN" for numbers nobody knows */
const char *port_error_text(int err, char *buf, size_t size);  /* "No such file or directory"; returns buf or a constant */

#endif

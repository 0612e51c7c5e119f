/* self: what the system knows of this program. What can't be known is 0. */
#ifndef PORT_SELF_H
#define PORT_SELF_H

#include <stddef.h>
#include <stdint.h>

typedef struct port_self {
  uint64_t resident, virtual_;                   /* bytes */
  uint64_t descriptors, most_descriptors;
  double   started;                              /* seconds since 1970 */
} port_self;
void port_self_get(port_self *s);
int  port_self_pid(void);
/* How a program was called, its words with spaces between them; its length, or 0. pid 0: this one. */
size_t port_command_of(int pid, char *buf, size_t size);

#endif

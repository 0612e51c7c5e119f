/*
 * map: a file that is memory, so that what was written there outlives the program, however that ends. Results are 0 or an errno value.
 *
 * The file grows as parts of it are asked for: a disk that is full is an error then, not a fault at the first store.
 */
#ifndef PORT_MAP_H
#define PORT_MAP_H

#include <stddef.h>
#include <stdint.h>

typedef struct port_map { int fd; void *at; size_t size; } port_map;

/* A new file, which replaces an old one; mode 0600; nothing of it is on disk yet. EBUSY: another program has made that one, and has it still. */
int  port_map_create(port_map *m, const char *path, size_t size);
int  port_map_take(port_map *m, size_t from, size_t len);           /* from now on these bytes may be touched */
/* For port_map_read: without a mapping, which a file that gets shorter, or has holes on a full disk, would make a trap. EINVAL: there is nothing in it. */
int  port_map_open(port_map *m, const char *path);
int  port_map_read(const port_map *m, size_t from, void *to, size_t len);   /* what is there now, though others may write; ENODATA: less than that */
void port_map_close(port_map *m);
/* The first file, mapped by a running program, whose path ends so. ESRCH: there is no such program, or it has none. */
int  port_map_find(long pid, const char *ending, char *path, size_t size);

/* ---- a part of a file, to be read as it is ---- */
typedef struct port_part { void *at; size_t size; void *bytes; size_t len; } port_part;   /* at, size: what is mapped; len 0: nothing is */
/*
 * From `offset`, `length` bytes at most, fewer if the file ends before. A regular file, else ENOTSUP. Who makes the file shorter makes what was
 * behind its new end a trap (SIGBUS) for who reads there.
 */
int  port_map_part_open(port_part *m, const char *path, uint64_t offset, uint64_t length);
void port_map_part_close(void *at, size_t size);
long port_pid(void);

#endif

/*
 * wsframe: frames of WebSocket (RFC 6455), from bytes and to bytes. Knows no Lua and keeps nothing.
 *
 * What one frame can do wrong by itself is refused here; which frame may follow which is lua/mare/http/websocket.lua's matter.
 */
#ifndef IO_WSFRAME_H
#define IO_WSFRAME_H

#include <stddef.h>
#include <stdint.h>

enum { WS_CONTINUED = 0, WS_TEXT = 1, WS_BINARY = 2, WS_CLOSE = 8, WS_PING = 9, WS_PONG = 10 };
enum { WS_HEAD = 14, WS_CONTROL = 125, WS_ACCEPT = 28 };        /* bytes: the longest head, the longest control frame; of what accept writes */

typedef struct mr_wsframe {
  int opcode, fin;
  size_t head;                         /* its bytes, the mask among them */
  uint64_t length;                     /* of what it carries, at most INT64_MAX - WS_HEAD */
  char mask[4];
} mr_wsframe;

/* Reads the head of a client's frame. 1; 0: its end has not come; -1: no client may send it, *why says what is wrong. */
int mr_wsframe_read(const char *p, size_t len, mr_wsframe *f, const char **why);
/* The head of a server's frame, which has no mask; how many bytes. */
size_t mr_wsframe_write(char head[WS_HEAD], int opcode, int fin, uint64_t length);
/* Puts the mask on, or takes it off. `to` may be `from`. */
void mr_wsframe_mask(char *to, const char *from, size_t len, const char mask[4]);
/* What a server answers to a key, without a zero at its end. 0: no memory. */
int mr_wsframe_accept(const char *key, size_t len, char to[WS_ACCEPT]);

#endif

/* wsframe: see wsframe.h. Sections are RFC 6455's. */
#include "io/wsframe.h"

#include <openssl/evp.h>
#include <string.h>

static int wrong(const char **why, const char *what) {
  *why = what;
  return -1;
}

static uint64_t number(const char *p, int bytes) {
  uint64_t n = 0;
  for (int i = 0; i < bytes; i++) n = n << 8 | (unsigned char)p[i];
  return n;
}

/* What is wrong is said as soon as it can be seen: who sends half of a bad head is not waited for. Section 5.2. */
int mr_wsframe_read(const char *p, size_t len, mr_wsframe *f, const char **why) {
  if (len == 0) return 0;
  unsigned char first = (unsigned char)p[0], second = len > 1 ? (unsigned char)p[1] : 0x80;
  f->fin = first >> 7;
  f->opcode = first & 15;
  f->length = second & 127;
  int control = f->opcode >= WS_CLOSE;
  if (first & 0x70) return wrong(why, "a reserved bit is set");
  if ((f->opcode > WS_BINARY && !control) || f->opcode > WS_PONG) return wrong(why, "the opcode has no meaning");
  if (control && !f->fin) return wrong(why, "a control frame is in fragments");
  if (!(second & 0x80)) return wrong(why, "it has no mask");
  if (control && f->length > WS_CONTROL) return wrong(why, "a control frame is too long");
  int extra = f->length < 126 ? 0 : f->length == 126 ? 2 : 8;
  f->head = (size_t)(2 + extra + 4);
  if (len < 2 + (size_t)extra) return 0;
  if (extra) f->length = number(p + 2, extra);
  if (extra && f->length < (extra == 2 ? 126 : 65536)) return wrong(why, "its length is not written in the shortest way");
  if (f->length > INT64_MAX - WS_HEAD) return wrong(why, "its length is no number of bytes");
  if (len < f->head) return 0;
  memcpy(f->mask, p + f->head - 4, 4);
  return 1;
}

size_t mr_wsframe_write(char head[WS_HEAD], int opcode, int fin, uint64_t length) {
  int extra = length < 126 ? 0 : length < 65536 ? 2 : 8;
  head[0] = (char)(fin << 7 | opcode);
  head[1] = (char)(extra == 0 ? (int)length : extra == 2 ? 126 : 127);
  for (int i = 0; i < extra; i++) head[2 + i] = (char)(length >> 8 * (extra - 1 - i));
  return (size_t)(2 + extra);
}

/* Eight bytes at a time, which compilers make sixteen or more. */
void mr_wsframe_mask(char *to, const char *from, size_t len, const char mask[4]) {
  uint64_t twice, word;
  size_t i = 0;
  memcpy(&twice, mask, 4);
  memcpy((char *)&twice + 4, mask, 4);
  for (; len - i >= 8; i += 8) {
    memcpy(&word, from + i, 8);
    word ^= twice;
    memcpy(to + i, &word, 8);
  }
  for (; i < len; i++) to[i] = (char)(from[i] ^ mask[i & 3]);
}

/* Section 4.2.2: the key and a fixed text, as SHA-1, in base64. */
int mr_wsframe_accept(const char *key, size_t len, char to[WS_ACCEPT]) {
  static const char fixed[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  char text[64 + sizeof fixed];
  unsigned char digest[EVP_MAX_MD_SIZE], coded[WS_ACCEPT + 1];
  unsigned n;
  if (len > 64) return 0;
  memcpy(text, key, len);
  memcpy(text + len, fixed, sizeof fixed - 1);
  if (!EVP_Digest(text, len + sizeof fixed - 1, digest, &n, EVP_sha1(), NULL)) return 0;
  EVP_EncodeBlock(coded, digest, 20);
  memcpy(to, coded, WS_ACCEPT);
  return 1;
}

/* curl_library: see curl_library.h. */
#include "io/curl.h"
#include "io/curl_library.h"
#include "port/port.h"
#include "port/system.h"

#include <string.h>

#ifdef MR_CURL

mr_libcurl_functions mr_libcurl;

static port_lock loading;
static int loaded;                             /* (loading) */
static const char *known = "";

#define OLDEST 0x074400                        /* 7.68 */
#define NO_SIGPIPE 0x075700                    /* 7.87: OpenSSL writes through libcurl's own send */

static const char *load(void) {
  static const char *const names[] = { "libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.4.dylib" };
  const char *err = "";
  void *library = NULL;
  for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++) library = port_library(names[i], 0, &err);
  if (!library) return "libcurl, which the client of mare.http needs, can't be loaded (Debian: the package libcurl4)";
  port_function f;
#define X(name) \
  if ((f = port_symbol(library, "curl_" #name, &err)) == NULL) return "libcurl is too old: the client of mare.http needs 7.68"; \
  memcpy(&mr_libcurl.name, &f, sizeof f);
  MR_CURL_FUNCTIONS(X)
#undef X
  const curl_version_info_data *v = mr_libcurl.version_info(CURLVERSION_NOW);
  if (v->version_num < OLDEST) return "libcurl is too old: the client of mare.http needs 7.68";
  if (!(v->features & CURL_VERSION_ASYNCHDNS)) return "this libcurl can't look up names without waiting, which the client of mare.http needs";
  if (mr_libcurl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return "libcurl can't be used: not enough memory";
  mr_libcurl.raises = v->version_num < NO_SIGPIPE;
  known = v->version;
  return NULL;
}

const char *mr_curl_load(void) {
  const char *why = NULL;
  port_acquire(&loading);
  if (!loaded && (why = load()) == NULL) loaded = 1;
  port_unlock(&loading);
  return why;
}

const char *mr_curl_version(void) { return known; }

#endif

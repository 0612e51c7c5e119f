/* curl_url: URLs, read and put together as libcurl does, see curl.h. */
#include "io/curl.h"
#include "io/curl_library.h"

#ifdef MR_CURL

static CURLUcode read_parts(CURLU *h, const char *base, const char *text, mr_url *u) {
  enum { HOW = CURLU_URLENCODE | CURLU_ALLOW_SPACE };
  CURLUcode code = base ? mr_libcurl.url_set(h, CURLUPART_URL, base, HOW) : CURLUE_OK;
  if (!code) code = mr_libcurl.url_set(h, CURLUPART_URL, text, HOW);
  if (!code) code = mr_libcurl.url_get(h, CURLUPART_URL, &u->text, 0);
  if (!code) code = mr_libcurl.url_get(h, CURLUPART_SCHEME, &u->scheme, 0);
  if (!code) code = mr_libcurl.url_get(h, CURLUPART_HOST, &u->host, 0);
  if (!code) code = mr_libcurl.url_get(h, CURLUPART_PORT, &u->port, CURLU_DEFAULT_PORT);
  return code;
}

const char *mr_url_read(const char *base, const char *text, mr_url *u) {
  *u = (mr_url){ NULL, NULL, NULL, NULL };
  CURLU *h = mr_libcurl.url();
  CURLUcode code = h ? read_parts(h, base, text, u) : CURLUE_OUT_OF_MEMORY;
  mr_libcurl.url_cleanup(h);
  if (code == CURLUE_OK) return NULL;
  mr_url_free(u);
  return code == CURLUE_OUT_OF_MEMORY ? "not enough memory" : code == CURLUE_NO_SCHEME || code == CURLUE_UNSUPPORTED_SCHEME
    ? "neither http:// nor https://" : "no URL";
}

void mr_url_free(mr_url *u) {
  mr_libcurl.free(u->text);
  mr_libcurl.free(u->scheme);
  mr_libcurl.free(u->host);
  mr_libcurl.free(u->port);
}

#endif

/*
 * curl_library: what is called of libcurl, by its functions' names without "curl_". All of it is there once mr_curl_load (curl.h) has given NULL, and does
 * not change after that.
 */
#ifndef IO_CURL_LIBRARY_H
#define IO_CURL_LIBRARY_H

#ifdef MR_CURL
#define CURL_DISABLE_DEPRECATION
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#define MR_CURL_FUNCTIONS(X) X(global_init) X(version_info) X(free) X(slist_append) X(slist_free_all) X(share_init) X(share_setopt) X(share_cleanup) \
  X(easy_init) X(easy_setopt) X(easy_getinfo) X(easy_pause) X(easy_cleanup) X(easy_strerror) X(multi_init) X(multi_setopt) X(multi_add_handle) \
  X(multi_remove_handle) X(multi_socket_action) X(multi_info_read) X(multi_cleanup) X(url) X(url_set) X(url_get) X(url_cleanup) X(url_strerror)

typedef struct mr_libcurl_functions {
#define X(f) __typeof__(curl_##f) *f;
  MR_CURL_FUNCTIONS(X)
#undef X
  int raises;                                  /* it writes in a way that may raise SIGPIPE */
} mr_libcurl_functions;
extern mr_libcurl_functions mr_libcurl;
#endif

#endif

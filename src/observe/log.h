/*
 * log: the log of the program, from records to lines in a file. Knows no Lua and no processes; what programs call is src/module/log.c.
 *
 * Who logs makes a line (logline.c) and puts it into a bounded queue, which takes a short lock and a copy; one thread writes (log.c). A line that
 * finds no room is counted as lost, and the log says how many were. In a forked child, and in runs that can be repeated, there is no such thread: lines
 * are written by whoever logs.
 */
#ifndef MR_LOG_H
#define MR_LOG_H

#include "port/port.h"

enum { MR_LOG_TRACE = 1, MR_LOG_DEBUG, MR_LOG_INFO, MR_LOG_WARN, MR_LOG_ERROR, MR_LOG_OFF };
enum { MR_LOG_AUTO, MR_LOG_TEXT, MR_LOG_COLOUR, MR_LOG_JSON };
extern const char *const mr_log_levels[MR_LOG_OFF + 1];    /* their names, by number; 0: none */

/* The least level that is written. 0: nobody has said, so the environment is still to be asked, and all goes the long way. */
extern atomic_int mr_log_least;
int  mr_log_level(void);                                   /* the same; asks the environment if need be */

/* A field's value: a string; a text of JSON; a number. */
typedef struct mr_log_field {
  enum { MR_LOG_STRING, MR_LOG_VALUE, MR_LOG_INTEGER, MR_LOG_NUMBER } kind;
  const char *name, *text;
  size_t name_length, length;
  int64_t integer;
  double number;
} mr_log_field;

typedef struct mr_log_record {
  int level;
  uint64_t process;                                        /* its number; 0: it has none */
  const char *process_name;                                /* or NULL */
  const char *message;
  size_t length;
  const mr_log_field *field;
  size_t fields;
} mr_log_record;

/* 1: it will be written; 0: it was lost, and is counted. */
int  mr_log_write(const mr_log_record *r);
/*
 * What the runtime has to say, a text as it would go to stderr: a line, and a traceback perhaps. 0: no log is in use, or it takes no errors, or is full;
 * so it must be printed.
 */
int  mr_log_says(int level, uint64_t process, const char *process_name, const char *text);

/* ---- settings ---- */
typedef struct mr_log_plan {
  int level, format;                                       /* 0: as it is */
  const char *file;                                        /* NULL: as it is; "": standard error */
  size_t queue;                                            /* bytes; 0: as it is */
} mr_log_plan;
int  mr_log_set(const mr_log_plan *plan);                  /* 0, or an errno value of the file, and nothing is changed */
void mr_log_reopen(void);                                  /* the file has been moved away: opens it anew. Any thread, not a signal handler */
int  mr_log_in_use(void);                                  /* something was set or written */

typedef struct mr_log_numbers { uint64_t lines, lost, failed, queued; } mr_log_numbers;   /* failed: could not be written; queued: bytes */
void mr_log_count(mr_log_numbers *n);
uint64_t mr_log_mark(void);                                /* what was put until now… */
int  mr_log_written(uint64_t mark);                        /* … and whether that is written */
void mr_log_end(void);                                     /* waits until all is, as long as it goes on */

/* ---- lines (logline.c) ---- */
size_t mr_log_room(const mr_log_record *r);                /* more than its line can need */
size_t mr_log_line(char *to, const mr_log_record *r, int format);   /* with a line end; how long it is */

#endif

/*
 * "cocoon-guest serve": processes, files and watches for clients that reach the guest over TCP. One connection is one
 * request. See packages/gateway/src/guest/protocol.ts for the language.
 *
 *   serve            accepts; each connection is served by a process of its own, so nothing here waits for another client
 *   process holder   one per started process: owns its pipes, survives every connection; see serve-process.c
 *   watch holder     one per watcher that clients poll; see serve-watch.c
 */
#ifndef COCOON_SERVE_H
#define COCOON_SERVE_H

#include "guest.h"
#include "json.h"

#define SERVE_PORT 49983
#define SERVE_DIRECTORY "/run/cocoon-serve"
#define PROCESS_DIRECTORY SERVE_DIRECTORY "/processes"
#define WATCH_DIRECTORY SERVE_DIRECTORY "/watchers"
#define MAX_REQUEST_BYTES (1024 * 1024)
#define FRAME_BYTES (32 * 1024)
#define STALL_SECONDS 120
#define SAMPLE_SECONDS 5

/* Frames in both directions: type, length (4 bytes, big endian), payload. */
enum frame_type {
  FRAME_JSON = 'J',
  FRAME_DATA = 'D',   /* content of a file, standard input */
  FRAME_STDOUT = 'O', /* also of a terminal */
  FRAME_STDERR = 'E',
  FRAME_ERROR = 'X',  /* JSON: code, message. The last frame. */
  FRAME_DONE = 'Z',   /* the last frame */
};

/* serve-frame.c */
bool send_frame(int fd, enum frame_type type, const void *payload, size_t length);
/* Closes the writer and frees it. */
bool send_json(int fd, struct json_writer *writer);
bool send_done(int fd);
void send_error(int fd, const char *code, const char *format, ...) __attribute__((format(printf, 3, 4)));
void send_errno(int fd, const char *path);
/* Reads a frame of at most FRAME_BYTES. False at the end, on an error and on a frame that is too long. */
bool receive_frame(int fd, char *type, char *payload, size_t *length);
bool full_read(int fd, void *data, size_t length);

/* serve.c */
/* Path of the request's key: "~", relative to the home of the account, or absolute. False: answered with an error. */
bool resolve_path(int fd, const struct account *account, const char *given, char path[4096]);
const struct settings *serve_settings(void);
int open_holder(const char *directory, const char *name);
int connect_holder(const char *directory, const char *name);
/* One message with a descriptor; payload may be empty. */
bool pass_descriptor(int holder, const void *payload, size_t length, int fd);
ssize_t receive_descriptor(int holder, void *payload, size_t capacity, int *fd);

/* serve-segments.c */
void use_large_segments(int fd);

/* agent-exec.c */
void close_fd(int *fd);

/* serve-process.c */
void serve_start(int fd, struct json_object *request, const struct account *account);
void serve_process_request(int fd, struct json_object *request, const char *operation);
void serve_list_processes(int fd);

/* serve-files.c */
void serve_files(int fd, struct json_object *request, const struct account *account, const char *operation);
void put_entry(struct json_writer *writer, const char *path);

/* serve-watch.c */
void serve_watch(int fd, const char *path, struct json_object *request, bool detached);
void serve_watcher_request(int fd, struct json_object *request, const char *operation);

/* serve-stats.c */
void serve_stats(int fd, struct json_object *request);
/* To be called every SAMPLE_SECONDS by the process that accepts. */
void take_sample(void);

#endif

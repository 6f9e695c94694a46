/* Frames of "serve". */
#define _GNU_SOURCE
#include "serve.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

bool full_read(int fd, void *data, size_t length) {
  char *at = data;
  while (length > 0) {
    ssize_t got = read(fd, at, length);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    length -= (size_t)got;
  }
  return true;
}

bool send_frame(int fd, enum frame_type type, const void *payload, size_t length) {
  char header[5] = {(char)type};
  uint32_t size = htonl((uint32_t)length);
  memcpy(header + 1, &size, sizeof size);
  struct iovec parts[2] = {{header, sizeof header}, {(void *)payload, length}};
  ssize_t sent;
  do sent = writev(fd, parts, 2);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) return false;
  if ((size_t)sent < sizeof header) {
    if (!full_write(fd, header + sent, sizeof header - (size_t)sent)) return false;
    sent = sizeof header;
  }
  size_t done = (size_t)sent - sizeof header;
  return full_write(fd, (const char *)payload + done, length - done);
}

bool send_json(int fd, struct json_writer *writer) {
  json_close(writer);
  bool sent = !writer->failed && send_frame(fd, FRAME_JSON, writer->data, writer->length);
  free(writer->data);
  return sent;
}

bool send_done(int fd) { return send_frame(fd, FRAME_DONE, "", 0); }

void send_error(int fd, const char *code, const char *format, ...) {
  char message[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  struct json_writer writer;
  json_open(&writer);
  json_put_text(&writer, "code", code);
  json_put_text(&writer, "message", message);
  json_close(&writer);
  if (!writer.failed) send_frame(fd, FRAME_ERROR, writer.data, writer.length);
  free(writer.data);
}

void send_errno(int fd, const char *path) {
  static const struct {
    int number;
    const char *code;
  } codes[] = {{ENOENT, "not_found"},        {ENOTDIR, "invalid_argument"}, {EISDIR, "invalid_argument"},
               {EEXIST, "already_exists"},   {ELOOP, "failed_precondition"}, {ENOSPC, "resource_exhausted"},
               {EDQUOT, "resource_exhausted"}, {EACCES, "permission_denied"}, {EPERM, "permission_denied"},
               {ENAMETOOLONG, "invalid_argument"}};
  int reason = errno;
  const char *code = "internal";
  for (size_t index = 0; index < sizeof codes / sizeof *codes; index++)
    if (codes[index].number == reason) code = codes[index].code;
  send_error(fd, code, "%.300s: %s", path, strerror(reason));
}

bool receive_frame(int fd, char *type, char *payload, size_t *length) {
  char header[5];
  uint32_t size;
  if (!full_read(fd, header, sizeof header)) return false;
  memcpy(&size, header + 1, sizeof size);
  *type = header[0];
  *length = ntohl(size);
  return *length <= FRAME_BYTES && full_read(fd, payload, *length);
}

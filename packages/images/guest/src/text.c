/* Files, messages and the clock. */
#define _GNU_SOURCE
#include "guest.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* One line on the console: a single write, so that lines of several processes do not mix. */
void say(const char *format, ...) {
  char line[512];
  int used = snprintf(line, sizeof line, "cocoon: ");
  va_list arguments;
  va_start(arguments, format);
  int more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, arguments);
  va_end(arguments);
  size_t length = (size_t)used + (more < 0 ? 0 : (size_t)more);
  if (length > sizeof line - 2) length = sizeof line - 2;
  line[length++] = '\n';
  (void)!write(STDERR_FILENO, line, length);
}

int64_t monotonic_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

bool full_write(int fd, const void *data, size_t length) {
  const char *at = data;
  while (length > 0) {
    ssize_t written = write(fd, at, length);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    length -= (size_t)written;
  }
  return true;
}

bool write_text(const char *path, const char *text, mode_t mode) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (fd < 0) return false;
  bool done = full_write(fd, text, strlen(text));
  return close(fd) == 0 && done;
}

/* Replaces the file whatever it was (a symbolic link included), never leaving half of it. */
bool replace_text(const char *path, const char *text, mode_t mode) {
  char draft[512];
  if (snprintf(draft, sizeof draft, "%s.cocoon-new", path) >= (int)sizeof draft) return false;
  unlink(draft);
  int fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) return false;
  bool done = full_write(fd, text, strlen(text)) && fchmod(fd, mode) == 0;
  if (close(fd) == 0 && done && rename(draft, path) == 0) return true;
  unlink(draft);
  return false;
}

/* Reads at most capacity - 1 bytes and ends them with a zero byte. */
ssize_t read_text(const char *path, char *buffer, size_t capacity) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  size_t length = 0;
  while (length < capacity - 1) {
    ssize_t got = read(fd, buffer + length, capacity - 1 - length);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    length += (size_t)got;
  }
  close(fd);
  buffer[length] = 0;
  return (ssize_t)length;
}

char *read_all(const char *path, size_t limit, size_t *length) {
  char *buffer = malloc(limit + 1);
  if (!buffer) return NULL;
  ssize_t got = read_text(path, buffer, limit + 1);
  if (got < 0) {
    free(buffer);
    return NULL;
  }
  *length = (size_t)got;
  char *fitted = realloc(buffer, (size_t)got + 1);
  return fitted ? fitted : buffer;
}

bool make_directories(const char *path, mode_t mode) {
  char partial[512];
  size_t length = strlen(path);
  if (length >= sizeof partial) return false;
  memcpy(partial, path, length + 1);
  for (char *slash = partial + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = 0;
    if (mkdir(partial, mode) < 0 && errno != EEXIST) return false;
    *slash = '/';
  }
  return mkdir(partial, mode) == 0 || errno == EEXIST;
}

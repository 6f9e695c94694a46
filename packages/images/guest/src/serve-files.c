/* Files and directories. Everything is done as root; what is made belongs to the account of the request. */
#define _GNU_SOURCE
#include "serve.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define MAX_DEPTH 64
#define METADATA_PREFIX "user.e2b."
#define MAX_METADATA 128
/* Of a file in one frame. */
#define STRETCH_BYTES (64 * 1024)

/* Name of an id in passwd or group, else the number. */
static void find_name(const char *file, unsigned id, char name[64]) {
  static char *texts[2];
  char **text = &texts[strcmp(file, "/etc/group") == 0];
  size_t length;
  if (!*text) *text = read_all(file, 1024 * 1024, &length);
  snprintf(name, 64, "%u", id);
  for (char *at = *text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
    char found[64];
    unsigned number;
    if (sscanf(at, "%63[^:\n]:%*[^:\n]:%u", found, &number) != 2 || number != id) continue;
    memcpy(name, found, sizeof found);
    return;
  }
}

/* As Go writes them: "drwxr-xr-x", "Lrwxrwxrwx", "dtrwxrwxrwx". */
static void format_permissions(mode_t mode, char text[16]) {
  char *at = text;
  if (S_ISDIR(mode)) *at++ = 'd';
  if (S_ISLNK(mode)) *at++ = 'L';
  if (S_ISFIFO(mode)) *at++ = 'p';
  if (S_ISSOCK(mode)) *at++ = 'S';
  if (mode & S_ISUID) *at++ = 'u';
  if (mode & S_ISGID) *at++ = 'g';
  if (S_ISCHR(mode) || S_ISBLK(mode)) *at++ = 'D';
  if (S_ISCHR(mode)) *at++ = 'c';
  if (mode & S_ISVTX) *at++ = 't';
  if (at == text) *at++ = '-';
  for (int bit = 8; bit >= 0; bit--) *at++ = mode & (1u << bit) ? "rwx"[(8 - bit) % 3] : '-';
  *at = 0;
}

static const char *type_name(mode_t mode) {
  return S_ISREG(mode) ? "FILE" : S_ISDIR(mode) ? "DIRECTORY" : S_ISLNK(mode) ? "SYMLINK" : "UNSPECIFIED";
}

static void put_metadata(struct json_writer *writer, const char *path) {
  char names[8192];
  ssize_t length = listxattr(path, names, sizeof names);
  char *pairs[MAX_METADATA];
  size_t count = 0;
  for (char *name = names; length > 0 && name < names + length && count < MAX_METADATA; name += strlen(name) + 1) {
    char value[4097];
    if (strncmp(name, METADATA_PREFIX, strlen(METADATA_PREFIX)) != 0) continue;
    ssize_t size = getxattr(path, name, value, sizeof value - 1);
    if (size < 0) continue;
    value[size] = 0;
    if (asprintf(&pairs[count], "%s=%s", name + strlen(METADATA_PREFIX), value) > 0) count++;
  }
  if (count > 0) json_put_list(writer, "metadata", (const char *const *)pairs, count);
  while (count > 0) free(pairs[--count]);
}

/* What is at the path; a symbolic link is described by its target where it has one. Adds nothing when there is nothing. */
void put_entry(struct json_writer *writer, const char *path) {
  struct stat own, target;
  if (lstat(path, &own) < 0) return;
  bool is_link = S_ISLNK(own.st_mode), resolves = stat(path, &target) == 0;
  if (!resolves) target = own;
  char permissions[16], owner[64], group[64], time[40], resolved[PATH_MAX];
  const char *name = strrchr(path, '/');
  struct tm utc;
  format_permissions(own.st_mode, permissions);
  find_name("/etc/passwd", own.st_uid, owner);
  find_name("/etc/group", own.st_gid, group);
  gmtime_r(&own.st_mtim.tv_sec, &utc);
  size_t length = strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &utc);
  snprintf(time + length, sizeof time - length, ".%09ldZ", own.st_mtim.tv_nsec);
  json_put_text(writer, "name", name && name[1] ? name + 1 : path);
  json_put_text(writer, "type", type_name(target.st_mode));
  json_put_text(writer, "path", path);
  json_put_number(writer, "size", own.st_size);
  json_put_number(writer, "mode", target.st_mode & 07777);
  json_put_text(writer, "permissions", permissions);
  json_put_text(writer, "owner", owner);
  json_put_text(writer, "group", group);
  json_put_text(writer, "modifiedTime", time);
  if (is_link && realpath(path, resolved)) json_put_text(writer, "symlinkTarget", resolved);
  if (S_ISREG(target.st_mode)) put_metadata(writer, path);
}

static void send_entry(int fd, const char *path) {
  struct json_writer writer;
  json_open(&writer);
  put_entry(&writer, path);
  if (send_json(fd, &writer)) send_done(fd);
}

static void serve_stat(int fd, const char *path) {
  struct stat found;
  if (lstat(path, &found) < 0) send_errno(fd, path);
  else send_entry(fd, path);
}

static int no_dots(const struct dirent *entry) { return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0; }

static int by_bytes(const struct dirent **left, const struct dirent **right) {
  return strcmp((*left)->d_name, (*right)->d_name);
}

static bool send_directory(int fd, const char *path, int64_t depth) {
  struct dirent **entries;
  int count = scandir(path, &entries, no_dots, by_bytes);
  bool going = true;
  for (int index = 0; index < count; index++) {
    char child[PATH_MAX];
    struct stat found;
    snprintf(child, sizeof child, "%s/%.255s", strcmp(path, "/") == 0 ? "" : path, entries[index]->d_name);
    free(entries[index]);
    struct json_writer writer;
    if (!going || lstat(child, &found) < 0) continue;
    json_open(&writer);
    put_entry(&writer, child);
    going = send_json(fd, &writer);
    if (going && depth > 1 && S_ISDIR(found.st_mode)) going = send_directory(fd, child, depth - 1);
  }
  if (count >= 0) free(entries);
  return going;
}

static void serve_list(int fd, const char *path, int64_t depth) {
  struct stat found;
  if (stat(path, &found) < 0) send_errno(fd, path);
  else if (!S_ISDIR(found.st_mode)) send_error(fd, "invalid_argument", "%.300s is not a directory", path);
  else if (depth > MAX_DEPTH) send_error(fd, "invalid_argument", "depth is limited to %d", MAX_DEPTH);
  else if (send_directory(fd, path, depth < 1 ? 1 : depth)) send_done(fd);
}

/* Parents that are missing, owned by the account. */
static bool make_parents(const char *path, const struct account *account) {
  char partial[PATH_MAX];
  snprintf(partial, sizeof partial, "%s", path);
  for (char *slash = partial + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = 0;
    if (mkdir(partial, 0755) == 0) {
      if (chown(partial, account->uid, account->gid) < 0) return false;
    } else if (errno != EEXIST) {
      return false;
    }
    *slash = '/';
  }
  return true;
}

static void serve_mkdir(int fd, const char *path, const struct account *account) {
  struct stat found;
  if (stat(path, &found) == 0) {
    if (S_ISDIR(found.st_mode)) send_error(fd, "already_exists", "%.300s is there already", path);
    else send_error(fd, "invalid_argument", "%.300s is not a directory", path);
  } else if (!make_parents(path, account) || mkdir(path, 0755) < 0 || chown(path, account->uid, account->gid) < 0) {
    send_errno(fd, path);
  } else {
    send_entry(fd, path);
  }
}

static void serve_move(int fd, const char *path, const char *target, const struct account *account) {
  struct stat found;
  if (lstat(path, &found) < 0) send_errno(fd, path);
  else if (!make_parents(target, account) || rename(path, target) < 0) send_errno(fd, target);
  else send_entry(fd, target);
}

static bool remove_tree(const char *path) {
  struct stat found;
  if (lstat(path, &found) < 0) return errno == ENOENT;
  if (!S_ISDIR(found.st_mode)) return unlink(path) == 0 || errno == ENOENT;
  struct dirent **entries;
  int count = scandir(path, &entries, no_dots, NULL);
  bool removed = count >= 0;
  for (int index = 0; index < count; index++) {
    char child[PATH_MAX];
    snprintf(child, sizeof child, "%s/%.255s", path, entries[index]->d_name);
    removed = remove_tree(child) && removed;
    free(entries[index]);
  }
  if (count >= 0) free(entries);
  return rmdir(path) == 0 && removed;
}

static void serve_remove(int fd, const char *path) {
  if (strcmp(path, "/") == 0) send_error(fd, "invalid_argument", "the root directory cannot be removed");
  else if (remove_tree(path)) send_done(fd);
  else send_error(fd, "internal", "%.300s: %s", path, strerror(errno));
}

/* The kernel sends it without a copy in between. False in the middle of a frame: the client sees a cut. */
static bool send_stretch(int fd, int file, size_t length) {
  char header[5] = {FRAME_DATA};
  uint32_t size = htonl((uint32_t)length);
  memcpy(header + 1, &size, sizeof size);
  if (!full_write(fd, header, sizeof header)) return false;
  while (length > 0) {
    ssize_t sent = sendfile(fd, file, NULL, length);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false; /* it was made shorter meanwhile */
    length -= (size_t)sent;
  }
  return true;
}

/* To the end of the file, not to the size that it says: files of /proc say 0. */
static bool send_content(int fd, int file, const char *path, off_t size) {
  static char data[FRAME_BYTES];
  for (off_t left = size; left > 0; left -= left < STRETCH_BYTES ? left : STRETCH_BYTES)
    if (!send_stretch(fd, file, (size_t)(left < STRETCH_BYTES ? left : STRETCH_BYTES))) return false;
  for (ssize_t got; (got = read(file, data, sizeof data)) != 0;) {
    if (got < 0) send_errno(fd, path);
    if (got < 0 || !send_frame(fd, FRAME_DATA, data, (size_t)got)) return false;
  }
  return true;
}

static void serve_read(int fd, const char *path) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  struct stat found;
  if (file < 0 || fstat(file, &found) < 0) {
    send_errno(fd, path);
    return;
  }
  if (S_ISDIR(found.st_mode)) {
    send_error(fd, "invalid_argument", "%.300s is a directory", path);
    return;
  }
  struct json_writer writer;
  json_open(&writer);
  put_entry(&writer, path);
  int on = 1, off = 0;
  use_large_segments(fd);
  setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on);
  if (!send_json(fd, &writer) || !send_content(fd, file, path, S_ISREG(found.st_mode) ? found.st_size : 0)) return;
  send_done(fd);
  setsockopt(fd, IPPROTO_TCP, TCP_CORK, &off, sizeof off);
}

/* Each upload replaces the whole set. */
static bool replace_metadata(int file, struct json_object *request) {
  char names[8192];
  ssize_t length = flistxattr(file, names, sizeof names);
  for (char *name = names; length > 0 && name < names + length; name += strlen(name) + 1)
    if (strncmp(name, METADATA_PREFIX, strlen(METADATA_PREFIX)) == 0 && fremovexattr(file, name) < 0) return false;
  char **pairs = json_list(request, "metadata", NULL);
  for (; *pairs; pairs++) {
    char name[300], *equals = strchr(*pairs, '=');
    if (!equals) continue;
    snprintf(name, sizeof name, METADATA_PREFIX "%.*s", (int)(equals - *pairs), *pairs);
    if (fsetxattr(file, name, equals + 1, strlen(equals + 1), 0) < 0) return false;
  }
  return true;
}

static bool receive_file(int fd, int file, const char *path) {
  static char data[FRAME_BYTES];
  for (;;) {
    char type;
    size_t length;
    if (!receive_frame(fd, &type, data, &length)) return false; /* the client left in the middle */
    if (type == FRAME_DONE) return true;
    if (full_write(file, data, length)) continue;
    send_errno(fd, path);
    return false;
  }
}

static void serve_write(int fd, const char *path, struct json_object *request, const struct account *account) {
  struct stat found;
  if (stat(path, &found) == 0 && S_ISDIR(found.st_mode)) {
    send_error(fd, "invalid_argument", "%.300s is a directory", path);
    return;
  }
  int file = make_parents(path, account) ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
  if (file < 0 || fchown(file, account->uid, account->gid) < 0) {
    send_errno(fd, path);
    return;
  }
  if (!receive_file(fd, file, path)) return;
  if (!replace_metadata(file, request) || close(file) < 0) send_errno(fd, path);
  else send_entry(fd, path);
}

void serve_files(int fd, struct json_object *request, const struct account *account, const char *operation) {
  char path[4096], target[4096];
  if (!resolve_path(fd, account, json_text(request, "path", ""), path)) return;
  if (strcmp(operation, "stat") == 0) serve_stat(fd, path);
  else if (strcmp(operation, "list") == 0) serve_list(fd, path, json_number(request, "depth", 1));
  else if (strcmp(operation, "mkdir") == 0) serve_mkdir(fd, path, account);
  else if (strcmp(operation, "remove") == 0) serve_remove(fd, path);
  else if (strcmp(operation, "read") == 0) serve_read(fd, path);
  else if (strcmp(operation, "write") == 0) serve_write(fd, path, request, account);
  else if (strcmp(operation, "watch") == 0) serve_watch(fd, path, request, false);
  else if (strcmp(operation, "create-watcher") == 0) serve_watch(fd, path, request, true);
  else if (strcmp(operation, "move") == 0) {
    if (resolve_path(fd, account, json_text(request, "target", ""), target)) serve_move(fd, path, target, account);
  } else send_error(fd, "unimplemented", "unknown request %.40s", operation);
}

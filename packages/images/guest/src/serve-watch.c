/* Changes in a directory, as a stream, or collected by a holder until a client asks for them. */
#define _GNU_SOURCE
#include "serve.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_WATCHES 8192
#define MAX_EVENTS 65536
#define WATCH_MASK (IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_ONLYDIR)
/* A watcher that no client has asked for this long is given up. */
#define ABANDONED_MS 3600000

struct watch {
  int inotify;
  const char *root;
  bool recursive, with_entry;
  char *directories[MAX_WATCHES]; /* by watch descriptor, relative to the root, "" = the root */
};

static struct watch watch;

static void add_directory(const char *relative) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s%s%s", watch.root, *relative ? "/" : "", relative);
  int descriptor = inotify_add_watch(watch.inotify, path, WATCH_MASK);
  if (descriptor < 0 || descriptor >= MAX_WATCHES) return;
  free(watch.directories[descriptor]);
  watch.directories[descriptor] = strdup(relative);
  DIR *directory = watch.recursive ? opendir(path) : NULL;
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    if (entry->d_type != DT_DIR || strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    char child[PATH_MAX];
    snprintf(child, sizeof child, "%.3800s%s%.255s", relative, *relative ? "/" : "", entry->d_name);
    add_directory(child);
  }
  if (directory) closedir(directory);
}

typedef bool (*emit)(void *context, const char *text, size_t length);

static bool emit_event(const char *name, const char *type, bool entry, emit out, void *context) {
  struct json_writer writer;
  json_open(&writer);
  if (entry && watch.with_entry) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.2000s/%.2000s", watch.root, name);
    put_entry(&writer, path);
  }
  json_put_text(&writer, "event", type);
  json_put_text(&writer, "changed", name);
  json_close(&writer);
  bool going = !writer.failed && out(context, writer.data, writer.length);
  free(writer.data);
  return going;
}

/* One change may be several events: create, rename, chmod, write, remove, in this order. */
static bool emit_change(const struct inotify_event *change, emit out, void *context) {
  static const struct {
    uint32_t mask;
    const char *type;
    bool entry;
  } kinds[] = {{IN_CREATE | IN_MOVED_TO, "CREATE", true}, {IN_MOVED_FROM, "RENAME", false}, {IN_ATTRIB, "CHMOD", true},
               {IN_MODIFY, "WRITE", true}, {IN_DELETE, "REMOVE", false}};
  const char *relative = change->wd >= 0 && change->wd < MAX_WATCHES ? watch.directories[change->wd] : NULL;
  if (!relative || change->len == 0) return true;
  char name[PATH_MAX];
  snprintf(name, sizeof name, "%.3800s%s%.255s", relative, *relative ? "/" : "", change->name);
  if (watch.recursive && (change->mask & IN_ISDIR) && (change->mask & (IN_CREATE | IN_MOVED_TO))) add_directory(name);
  for (size_t index = 0; index < sizeof kinds / sizeof *kinds; index++)
    if (change->mask & kinds[index].mask && !emit_event(name, kinds[index].type, kinds[index].entry, out, context)) return false;
  return true;
}

static bool take_changes(emit out, void *context) {
  char buffer[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
  for (ssize_t got; (got = read(watch.inotify, buffer, sizeof buffer)) > 0;)
    for (char *at = buffer; at < buffer + got;) {
      struct inotify_event *change = (struct inotify_event *)at;
      if (!emit_change(change, out, context)) return false;
      at += sizeof *change + change->len;
    }
  return true;
}

static bool emit_frame(void *context, const char *text, size_t length) {
  return send_frame(*(int *)context, FRAME_JSON, text, length);
}

/* Until the client leaves. */
static void stream_changes(int fd) {
  struct pollfd polls[2] = {{watch.inotify, POLLIN, 0}, {fd, POLLIN, 0}};
  if (!send_frame(fd, FRAME_JSON, "{\"started\":true}\n", 17)) return;
  for (;;) {
    poll(polls, 2, -1);
    if (polls[1].revents) return;
    if (!take_changes(emit_frame, &fd)) return;
  }
}

struct collected {
  char *texts[MAX_EVENTS];
  size_t count;
};

static bool collect(void *context, const char *text, size_t length) {
  struct collected *events = context;
  if (events->count < MAX_EVENTS && (events->texts[events->count] = strndup(text, length))) events->count++;
  return true;
}

static void hand_over(struct collected *events, int fd) {
  bool going = true;
  for (size_t index = 0; index < events->count; index++) {
    going = going && send_frame(fd, FRAME_JSON, events->texts[index], strlen(events->texts[index]));
    free(events->texts[index]);
  }
  events->count = 0;
  if (going) send_done(fd);
}

static void hold_watcher(int listener, const char *name) {
  static struct collected events;
  struct pollfd polls[2] = {{watch.inotify, POLLIN, 0}, {listener, POLLIN, 0}};
  char path[128];
  snprintf(path, sizeof path, WATCH_DIRECTORY "/%s", name);
  while (poll(polls, 2, ABANDONED_MS) > 0 || errno == EINTR) {
    take_changes(collect, &events);
    int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC), fd;
    char message[8] = "";
    if (client < 0) continue;
    ssize_t got = receive_descriptor(client, message, sizeof message, &fd);
    close(client);
    if (got <= 0 || fd < 0) continue;
    bool ends = message[0] == 'r';
    take_changes(collect, &events);
    if (ends) send_done(fd);
    else hand_over(&events, fd);
    close(fd);
    if (ends) break;
  }
  unlink(path);
}

static void start_watcher(int fd) {
  unsigned char random[8];
  char name[24];
  if (getrandom(random, sizeof random, 0) != sizeof random) return;
  size_t length = (size_t)snprintf(name, sizeof name, "w");
  for (size_t index = 0; index < sizeof random; index++) length += (size_t)snprintf(name + length, sizeof name - length, "%02x", random[index]);
  int listener = open_holder(WATCH_DIRECTORY, name);
  if (listener < 0) {
    send_error(fd, "internal", "cannot hold the watcher: %s", strerror(errno));
    return;
  }
  struct json_writer writer;
  json_open(&writer);
  json_put_text(&writer, "watcher", name);
  if (fork() == 0) {
    close(fd);
    setsid();
    hold_watcher(listener, name);
    _exit(0);
  }
  if (send_json(fd, &writer)) send_done(fd);
}

void serve_watch(int fd, const char *path, struct json_object *request, bool detached) {
  struct stat found;
  if (stat(path, &found) < 0) {
    send_errno(fd, path);
    return;
  }
  if (!S_ISDIR(found.st_mode)) {
    send_error(fd, "invalid_argument", "%.300s is not a directory", path);
    return;
  }
  watch = (struct watch){.inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), .root = path,
                         .recursive = json_truth(request, "recursive"), .with_entry = json_truth(request, "withEntry")};
  if (watch.inotify < 0) {
    send_errno(fd, path);
    return;
  }
  add_directory("");
  if (detached) start_watcher(fd);
  else stream_changes(fd);
}

void serve_watcher_request(int fd, struct json_object *request, const char *operation) {
  const char *name = json_text(request, "watcher", "");
  int holder = connect_holder(WATCH_DIRECTORY, name);
  const char *message = strcmp(operation, "remove") == 0 ? "r" : "g";
  if (holder < 0 || !pass_descriptor(holder, message, 1, fd)) send_error(fd, "not_found", "no watcher %.40s", name);
}

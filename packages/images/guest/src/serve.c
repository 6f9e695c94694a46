/* See serve.h: configuration, listener, and which request is served by what. */
#define _GNU_SOURCE
#include "serve.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONFIG_FILE SERVE_DIRECTORY "/config"
#define LOCK_FILE SERVE_DIRECTORY "/lock"
#define MAX_CLIENTS 256
#define MAX_CONFIG_BYTES (512 * 1024)

/* Records "key=value" ended by a zero byte each: token, user, env (repeated). */
const struct settings *serve_settings(void) {
  static struct settings settings;
  if (!settings.data) settings = load_settings(CONFIG_FILE);
  return &settings;
}

int open_holder(const char *directory, const char *name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s/%.40s", directory, name);
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  unlink(address.sun_path);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 64) < 0) return -1;
  return fd;
}

int connect_holder(const char *directory, const char *name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (!*name || strchr(name, '/') || strlen(name) > 40) return -1;
  snprintf(address.sun_path, sizeof address.sun_path, "%s/%.40s", directory, name);
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

bool pass_descriptor(int holder, const void *payload, size_t length, int fd) {
  struct iovec part = {(void *)payload, length};
  union {
    char space[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
  } control;
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space,
                           .msg_controllen = sizeof control.space};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
  memcpy(CMSG_DATA(header), &fd, sizeof fd);
  return sendmsg(holder, &message, MSG_NOSIGNAL) >= 0;
}

ssize_t receive_descriptor(int holder, void *payload, size_t capacity, int *fd) {
  struct iovec part = {payload, capacity};
  union {
    char space[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
  } control;
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space,
                           .msg_controllen = sizeof control.space};
  *fd = -1;
  ssize_t got = recvmsg(holder, &message, MSG_CMSG_CLOEXEC);
  struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
  if (header && header->cmsg_type == SCM_RIGHTS) memcpy(fd, CMSG_DATA(header), sizeof *fd);
  return got;
}

bool resolve_path(int fd, const struct account *account, const char *given, char path[4096]) {
  int length;
  if (given[0] == '/') length = snprintf(path, 4096, "%s", given);
  else if (strcmp(given, "~") == 0 || !*given) length = snprintf(path, 4096, "%s", account->home);
  else if (strncmp(given, "~/", 2) == 0) length = snprintf(path, 4096, "%s/%s", account->home, given + 2);
  else if (given[0] == '~') length = -1;
  else length = snprintf(path, 4096, "%s/%s", account->home, given);
  if (length > 0 && length < 4096) {
    while (length > 1 && path[length - 1] == '/') path[--length] = 0;
    return true;
  }
  if (length < 0) send_error(fd, "invalid_argument", "%.200s: a home is named by ~ alone", given);
  else send_error(fd, "invalid_argument", "the path is longer than 4095 bytes");
  return false;
}

static bool same_token(const char *given) {
  const char *wanted = setting(serve_settings(), "token");
  if (!wanted || !*wanted) return false;
  size_t length = strlen(wanted);
  unsigned char difference = strlen(given) != length;
  for (size_t index = 0; index < length; index++) difference |= (unsigned char)(wanted[index] ^ given[strlen(given) > index ? index : 0]);
  return difference == 0;
}

/* Frames may follow the line at once: what came is peeked at, and only the line is taken. */
static bool read_request(int fd, char *line) {
  for (size_t length = 0;;) {
    char piece[4096];
    ssize_t got = recv(fd, piece, sizeof piece, MSG_PEEK);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    char *end = memchr(piece, '\n', (size_t)got);
    size_t taken = end ? (size_t)(end - piece) + 1 : (size_t)got;
    if (length + taken > MAX_REQUEST_BYTES || !full_read(fd, line + length, taken)) return false;
    length += taken;
    if (!end) continue;
    line[length - 1] = 0;
    return true;
  }
}

static void serve_request(int fd, struct json_object *request) {
  const char *operation = json_text(request, "op", "");
  if (!same_token(json_text(request, "token", ""))) {
    send_error(fd, "unauthenticated", "the token is not that of this guest");
    return;
  }
  if (strcmp(operation, "ping") == 0) {
    send_done(fd);
    return;
  }
  const char *user = json_text(request, "user", ""), *standard = setting(serve_settings(), "user");
  struct account account;
  bool known = *user ? find_account(user, &account)
                     : (standard && *standard && find_account(standard, &account)) || find_account("root", &account);
  if (!known) {
    send_error(fd, "unauthenticated", "no such user: %.100s", user);
    return;
  }
  if (strcmp(operation, "start") == 0) serve_start(fd, request, &account);
  else if (strcmp(operation, "processes") == 0) serve_list_processes(fd);
  else if (strncmp(operation, "process-", 8) == 0) serve_process_request(fd, request, operation + 8);
  else if (strncmp(operation, "watcher-", 8) == 0) serve_watcher_request(fd, request, operation + 8);
  else if (strcmp(operation, "stats") == 0) serve_stats(fd, request);
  else serve_files(fd, request, &account, operation);
}

static void serve_client(int fd) {
  static struct json_object request;
  char *line = malloc(MAX_REQUEST_BYTES + 1);
  struct timeval stall = {.tv_sec = STALL_SECONDS};
  int on = 1, idle = 15, interval = 5, probes = 3;
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &stall, sizeof stall);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &stall, sizeof stall);
  /* After a restore the other end may not exist any more. */
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (!line || !read_request(fd, line)) return;
  if (json_read(line, &request)) serve_request(fd, &request);
  else send_error(fd, "invalid_argument", "the request is not a flat JSON object");
}

/* Connections of children that are still served; those that ended are reaped on the way. */
static void accept_clients(int listener) {
  size_t clients = 0;
  int64_t next_sample = 0;
  for (;;) {
    int64_t left = next_sample - monotonic_ms();
    struct pollfd waiting = {.fd = listener, .events = POLLIN};
    if (left <= 0) {
      take_sample();
      next_sample = monotonic_ms() + SAMPLE_SECONDS * 1000;
      continue;
    }
    if (poll(&waiting, 1, (int)left) <= 0) continue;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    while (clients > 0 && waitpid(-1, NULL, WNOHANG) > 0) clients--;
    if (fd < 0) {
      if (errno != EINTR && errno != ECONNABORTED) usleep(100000);
      continue;
    }
    if (clients >= MAX_CLIENTS) {
      send_error(fd, "resource_exhausted", "%d requests are being served", MAX_CLIENTS);
      close(fd);
      continue;
    }
    pid_t child = fork();
    if (child == 0) {
      close(listener);
      serve_client(fd);
      _exit(0);
    }
    if (child > 0) clients++;
    close(fd);
  }
}

static int listen_for_clients(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(SERVE_PORT)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 128) < 0) return -1;
  return fd;
}

static void run_daemon(int lock) {
  if (fork() != 0) return;
  setsid();
  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; fd++) dup2(null, fd);
  int listener = listen_for_clients();
  (void)lock; /* stays open: it is what says that a daemon runs */
  if (listener >= 0) accept_clients(listener);
  _exit(1);
}

static bool write_config(struct json_object *request) {
  char *text = NULL;
  size_t length = 0;
  FILE *stream = open_memstream(&text, &length);
  fprintf(stream, "token=%s%c", json_text(request, "token", ""), 0);
  fprintf(stream, "user=%s%c", json_text(request, "user", "user"), 0);
  size_t count;
  char **values = json_list(request, "env", &count);
  for (size_t index = 0; index < count; index++) fprintf(stream, "env=%s%c", values[index], 0);
  fclose(stream);
  char draft[64]; /* of its own: two gateways may prepare the guest at the same time */
  snprintf(draft, sizeof draft, CONFIG_FILE ".%d", (int)getpid());
  unlink(draft);
  int fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  bool written = fd >= 0 && full_write(fd, text, length) && close(fd) == 0 && rename(draft, CONFIG_FILE) == 0;
  free(text);
  return written;
}

/* Takes the configuration on standard input and makes sure that the daemon runs. Repeatable. */
int serve_main(void) {
  static struct json_object request;
  static char line[MAX_CONFIG_BYTES + 1];
  size_t length = 0;
  umask(022);
  for (ssize_t got; length < MAX_CONFIG_BYTES && (got = read(0, line + length, MAX_CONFIG_BYTES - length)) > 0;)
    length += (size_t)got;
  line[length] = 0;
  line[strcspn(line, "\n")] = 0;
  if (!json_read(line, &request) || strlen(json_text(&request, "token", "")) < 32) {
    fprintf(stderr, "serve: standard input must be JSON with a token of 32 characters or more\n");
    return 2;
  }
  mkdir(SERVE_DIRECTORY, 0700);
  mkdir(PROCESS_DIRECTORY, 0700);
  mkdir(WATCH_DIRECTORY, 0700);
  if (!write_config(&request)) {
    fprintf(stderr, "serve: cannot write " CONFIG_FILE ": %s\n", strerror(errno));
    return 1;
  }
  int lock = open(LOCK_FILE, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0) run_daemon(lock);
  return 0;
}

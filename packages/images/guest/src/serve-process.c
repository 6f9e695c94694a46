/*
 * Processes that outlive connections. Each has a holder: a process of ours that owns its pipes, sends its output to
 * every subscriber, and takes input. Clients reach it over a Unix socket named by the pid, which hands over their
 * connection; so a connection that breaks ends nothing. Without a subscriber output is dropped.
 */
#define _GNU_SOURCE
#include "serve.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define MAX_SUBSCRIBERS 64
#define MAX_INPUTS 16
/* A child of the process may keep its output open; it is not waited for longer. */
#define LINGER_MS 250
#define REMEMBER_MS 30000
#define STALL_MS (STALL_SECONDS * 1000)

struct subscriber {
  int fd; /* -1 = free */
  char *queue;
  size_t length, sent;
  int64_t stalled_ms;
};

struct holder {
  pid_t pid;
  char name[24];
  bool tty, has_input;
  int input, output, error, listener, signals;
  struct subscriber subscribers[MAX_SUBSCRIBERS];
  int inputs[MAX_INPUTS];
  int64_t kill_ms, ended_ms; /* -1 = not */
  int status;
  bool finished;
};

static char process_path[128], *process_record;

/* ---- subscribers ---- */

static void drop_subscriber(struct subscriber *subscriber) {
  if (subscriber->fd >= 0) close(subscriber->fd);
  free(subscriber->queue);
  *subscriber = (struct subscriber){.fd = -1};
}

static void flush_subscriber(struct subscriber *subscriber) {
  while (subscriber->sent < subscriber->length) {
    ssize_t sent = send(subscriber->fd, subscriber->queue + subscriber->sent, subscriber->length - subscriber->sent,
                        MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    if (sent <= 0) {
      drop_subscriber(subscriber);
      return;
    }
    subscriber->sent += (size_t)sent;
    subscriber->stalled_ms = monotonic_ms();
  }
  subscriber->length = subscriber->sent = 0;
}

static void queue_frame(struct subscriber *subscriber, enum frame_type type, const void *payload, size_t length) {
  if (subscriber->fd < 0) return;
  char *grown = realloc(subscriber->queue, subscriber->length + length + 5);
  if (!grown) {
    drop_subscriber(subscriber);
    return;
  }
  subscriber->queue = grown;
  char *at = grown + subscriber->length;
  at[0] = (char)type;
  for (int byte = 0; byte < 4; byte++) at[1 + byte] = (char)(length >> (24 - 8 * byte));
  memcpy(at + 5, payload, length);
  if (subscriber->length == subscriber->sent) subscriber->stalled_ms = monotonic_ms();
  subscriber->length += length + 5;
  flush_subscriber(subscriber);
}

static void queue_started(struct holder *holder, struct subscriber *subscriber) {
  char text[64];
  int length = snprintf(text, sizeof text, "{\"pid\":%d,\"tty\":%s}\n", holder->pid, holder->tty ? "true" : "false");
  queue_frame(subscriber, FRAME_JSON, text, (size_t)length);
}

static void queue_end(struct holder *holder, struct subscriber *subscriber) {
  char text[64];
  int code = WIFEXITED(holder->status) ? WEXITSTATUS(holder->status) : -1;
  int signal = WIFSIGNALED(holder->status) ? WTERMSIG(holder->status) : 0;
  int length = snprintf(text, sizeof text, "{\"code\":%d,\"signal\":%d}\n", code, signal);
  queue_frame(subscriber, FRAME_JSON, text, (size_t)length);
  queue_frame(subscriber, FRAME_DONE, "", 0);
}

static void subscribe(struct holder *holder, int fd) {
  for (size_t index = 0; index < MAX_SUBSCRIBERS; index++) {
    struct subscriber *subscriber = &holder->subscribers[index];
    if (subscriber->fd >= 0) continue;
    *subscriber = (struct subscriber){.fd = fd};
    queue_started(holder, subscriber);
    if (holder->finished) queue_end(holder, subscriber);
    return;
  }
  send_error(fd, "resource_exhausted", "the process has %d readers", MAX_SUBSCRIBERS);
  close(fd);
}

/* Backpressure: nothing is read from the process while a reader has not taken what came before. */
static bool is_behind(struct holder *holder, int64_t now) {
  bool behind = false;
  for (size_t index = 0; index < MAX_SUBSCRIBERS; index++) {
    struct subscriber *subscriber = &holder->subscribers[index];
    if (subscriber->fd < 0 || subscriber->length == 0) continue;
    if (now - subscriber->stalled_ms > STALL_MS) drop_subscriber(subscriber);
    else behind = true;
  }
  return behind;
}

static void take_output(struct holder *holder, int *fd, enum frame_type type) {
  char data[FRAME_BYTES];
  ssize_t got = read(*fd, data, sizeof data);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    if (holder->tty && holder->ended_ms < 0) { /* closed by every process; it may be opened again */
      usleep(20000);
      return;
    }
    if (*fd == holder->output && holder->input == *fd) holder->input = -1;
    close(*fd);
    *fd = -1;
    return;
  }
  for (size_t index = 0; index < MAX_SUBSCRIBERS; index++)
    queue_frame(&holder->subscribers[index], type, data, (size_t)got);
}

/* ---- requests of clients ---- */

static void end_input_client(int *slot) {
  close(*slot);
  *slot = -1;
}

/* One frame of input; what follows waits in the connection. */
static void take_input(struct holder *holder, int *slot) {
  char data[FRAME_BYTES], type;
  size_t length;
  if (!receive_frame(*slot, &type, data, &length)) {
    end_input_client(slot);
    return;
  }
  if (type == FRAME_DONE) {
    send_done(*slot);
    end_input_client(slot);
    return;
  }
  int target = holder->input;
  if (target >= 0) fcntl(target, F_SETFL, fcntl(target, F_GETFL) & ~O_NONBLOCK);
  /* A process that does not read must not stop its own output: the write is bounded by an alarm-free poll. */
  size_t done = 0;
  while (target >= 0 && done < length) {
    struct pollfd room = {.fd = target, .events = POLLOUT};
    if (poll(&room, 1, 5000) <= 0) break;
    size_t piece = length - done > 4096 ? 4096 : length - done; /* a pipe that polls as writable takes this much */
    ssize_t wrote = write(target, data + done, piece);
    if (wrote <= 0) break;
    done += (size_t)wrote;
  }
  if (done == length) return;
  send_error(*slot, "internal", "the process takes no input");
  end_input_client(slot);
}

static void add_input(struct holder *holder, int fd, bool wants_tty) {
  if (wants_tty != holder->tty) {
    send_error(fd, "internal", wants_tty ? "the process has no terminal" : "the process has a terminal: send pty input");
  } else if (holder->input < 0 || !holder->has_input) {
    send_error(fd, "internal", "the process has no standard input");
  } else {
    for (size_t index = 0; index < MAX_INPUTS; index++) {
      if (holder->inputs[index] >= 0) continue;
      holder->inputs[index] = fd;
      return;
    }
    send_error(fd, "resource_exhausted", "the process has %d senders of input", MAX_INPUTS);
  }
  close(fd);
}

static void close_input(struct holder *holder, int fd) {
  if (holder->tty) {
    char end = 4;
    if (holder->input >= 0) (void)!write(holder->input, &end, 1);
  } else {
    close_fd(&holder->input);
  }
  send_done(fd);
  close(fd);
}

static void resize(struct holder *holder, int fd, const char *message) {
  unsigned rows = 0, columns = 0;
  if (!holder->tty) send_error(fd, "internal", "the process has no terminal");
  else if (sscanf(message, "%u %u", &rows, &columns) != 2) send_error(fd, "invalid_argument", "no size");
  else {
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    ioctl(holder->output, TIOCSWINSZ, &size);
    send_done(fd);
  }
  close(fd);
}

static void take_client(struct holder *holder) {
  int client = accept4(holder->listener, NULL, NULL, SOCK_CLOEXEC);
  if (client < 0) return;
  char message[64] = "";
  int fd;
  ssize_t got = receive_descriptor(client, message, sizeof message - 1, &fd);
  close(client);
  if (got <= 0 || fd < 0) return;
  message[got] = 0;
  if (message[0] == 's') subscribe(holder, fd);
  else if (message[0] == 'i' || message[0] == 'p') add_input(holder, fd, message[0] == 'p');
  else if (message[0] == 'c') close_input(holder, fd);
  else if (message[0] == 'r') resize(holder, fd, message + 1);
  else close(fd);
}

/* ---- the holder's loop ---- */

static void finish(struct holder *holder) {
  holder->finished = true;
  unlink(process_record);
  close_fd(&holder->output);
  if (holder->tty) holder->input = -1;
  close_fd(&holder->error);
  close_fd(&holder->input);
  for (size_t index = 0; index < MAX_SUBSCRIBERS; index++)
    if (holder->subscribers[index].fd >= 0) queue_end(holder, &holder->subscribers[index]);
}

static void reap(struct holder *holder) {
  struct signalfd_siginfo info;
  while (read(holder->signals, &info, sizeof info) == sizeof info) continue;
  for (int status; waitpid(holder->pid, &status, WNOHANG) == holder->pid;) {
    holder->status = status;
    holder->ended_ms = monotonic_ms();
  }
}

static size_t collect_polls(struct holder *holder, struct pollfd *polls, bool behind) {
  size_t count = 0;
  polls[count++] = (struct pollfd){holder->listener, POLLIN, 0};
  polls[count++] = (struct pollfd){holder->signals, POLLIN, 0};
  polls[count++] = (struct pollfd){behind ? -1 : holder->output, POLLIN, 0};
  polls[count++] = (struct pollfd){behind ? -1 : holder->error, POLLIN, 0};
  for (size_t index = 0; index < MAX_SUBSCRIBERS; index++) {
    struct subscriber *subscriber = &holder->subscribers[index];
    polls[count++] = (struct pollfd){subscriber->fd, (short)(POLLIN | (subscriber->length > 0 ? POLLOUT : 0)), 0};
  }
  for (size_t index = 0; index < MAX_INPUTS; index++) polls[count++] = (struct pollfd){holder->inputs[index], POLLIN, 0};
  return count;
}

/* A subscriber says nothing: what can be read is its end. */
static void look_at_subscriber(struct subscriber *subscriber, short events) {
  char byte[256];
  if (events & POLLOUT) flush_subscriber(subscriber);
  if (subscriber->fd < 0 || !(events & (POLLIN | POLLHUP | POLLERR))) return;
  ssize_t got = recv(subscriber->fd, byte, sizeof byte, MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) drop_subscriber(subscriber);
}

static int wait_ms(struct holder *holder, int64_t now, bool behind) {
  int64_t until = holder->finished ? holder->ended_ms + REMEMBER_MS
                  : holder->ended_ms >= 0 ? holder->ended_ms + LINGER_MS : holder->kill_ms;
  if (behind && (until < 0 || until > now + 1000)) until = now + 1000;
  return until < 0 ? -1 : until <= now ? 0 : until - now > 60000 ? 60000 : (int)(until - now);
}

static void hold(struct holder *holder) {
  struct pollfd polls[4 + MAX_SUBSCRIBERS + MAX_INPUTS];
  for (;;) {
    int64_t now = monotonic_ms();
    if (holder->kill_ms >= 0 && now >= holder->kill_ms && holder->ended_ms < 0) {
      kill(-holder->pid, SIGKILL);
      holder->kill_ms = -1;
    }
    bool behind = is_behind(holder, now);
    bool drained = holder->output < 0 && holder->error < 0;
    if (!holder->finished && holder->ended_ms >= 0 && !behind && (drained || now >= holder->ended_ms + LINGER_MS)) finish(holder);
    if (holder->finished && now >= holder->ended_ms + REMEMBER_MS) break;
    size_t count = collect_polls(holder, polls, behind);
    if (poll(polls, count, wait_ms(holder, now, behind)) <= 0) continue;
    if (polls[1].revents) reap(holder);
    if (polls[2].revents) take_output(holder, &holder->output, FRAME_STDOUT);
    if (polls[3].revents) take_output(holder, &holder->error, FRAME_STDERR);
    for (size_t index = 0; index < MAX_SUBSCRIBERS; index++)
      if (polls[4 + index].revents) look_at_subscriber(&holder->subscribers[index], polls[4 + index].revents);
    for (size_t index = 0; index < MAX_INPUTS; index++)
      if (polls[4 + MAX_SUBSCRIBERS + index].revents) take_input(holder, &holder->inputs[index]);
    if (polls[0].revents) take_client(holder);
  }
  unlink(process_path);
}

/* ---- start ---- */

static void add_environment(const char *value, void *context) {
  (void)context;
  if (strchr(value, '=')) putenv(strdup(value));
}

static void set_environment(struct json_object *request, const struct account *account) {
  clearenv();
  setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
  setenv("HOME", account->home, 1);
  setenv("USER", *account->name ? account->name : "root", 1);
  setenv("LOGNAME", *account->name ? account->name : "root", 1);
  each_setting(serve_settings(), "env", add_environment, NULL);
  char **given = json_list(request, "env", NULL);
  for (; *given; given++) add_environment(*given, NULL);
}

struct ends {
  int input, output, error;
};

static void become_process(struct json_object *request, const struct account *account, struct ends ends, bool tty) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGHUP, SIG_DFL);
  setsid();
  if (tty) ioctl(ends.input, TIOCSCTTY, 0);
  dup2(ends.input, 0);
  dup2(ends.output, 1);
  dup2(ends.error, 2);
  char **arguments = json_list(request, "argv", NULL);
  set_environment(request, account);
  if (!become(account) || chdir(json_text(request, "directory", "/")) < 0) {
    dprintf(2, "%s: %s\n", arguments[0], strerror(errno));
    _exit(126);
  }
  execvp(arguments[0], arguments);
  dprintf(2, "%s: %s\n", arguments[0], strerror(errno));
  _exit(127);
}

static bool open_terminal(struct holder *holder, struct ends *theirs, struct json_object *request, const struct account *account) {
  int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK), unlock = 0;
  if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0) return false;
  int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (slave < 0) return false;
  struct winsize size = {.ws_row = (unsigned short)json_number(request, "rows", 24),
                         .ws_col = (unsigned short)json_number(request, "columns", 80)};
  ioctl(slave, TIOCSWINSZ, &size);
  if (fchown(slave, account->uid, account->gid) == 0) fchmod(slave, 0620);
  *theirs = (struct ends){slave, slave, slave};
  holder->input = holder->output = master;
  holder->has_input = true;
  return true;
}

static bool open_pipes(struct holder *holder, struct ends *theirs, bool with_input) {
  int input[2] = {-1, -1}, output[2], error[2];
  if (with_input ? pipe2(input, O_CLOEXEC) < 0 : (input[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0) return false;
  if (pipe2(output, O_CLOEXEC) < 0 || pipe2(error, O_CLOEXEC) < 0) return false;
  fcntl(output[0], F_SETFL, O_NONBLOCK);
  fcntl(error[0], F_SETFL, O_NONBLOCK);
  *theirs = (struct ends){input[0], output[1], error[1]};
  holder->input = input[1];
  holder->output = output[0];
  holder->error = error[0];
  holder->has_input = with_input;
  return true;
}

/* What "processes" answers, as one line. */
static bool write_record(struct holder *holder, struct json_object *request) {
  struct json_writer writer;
  size_t arguments, environment;
  char **argv = json_list(request, "argv", &arguments), **env = json_list(request, "env", &environment);
  json_open(&writer);
  json_put_number(&writer, "pid", holder->pid);
  json_put_list(&writer, "argv", (const char *const *)argv, arguments);
  json_put_list(&writer, "env", (const char *const *)env, environment);
  json_put_text(&writer, "cwd", json_text(request, "cwd", ""));
  json_put_text(&writer, "tag", json_text(request, "tag", ""));
  json_close(&writer);
  int fd = writer.failed ? -1 : open(process_record, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  bool written = fd >= 0 && full_write(fd, writer.data, writer.length);
  if (fd >= 0) close(fd);
  free(writer.data);
  return written;
}

static void run_holder(int client, struct json_object *request, const struct account *account) {
  static struct holder holder = {.input = -1, .output = -1, .error = -1, .kill_ms = -1, .ended_ms = -1};
  for (size_t index = 0; index < MAX_SUBSCRIBERS; index++) holder.subscribers[index].fd = -1;
  for (size_t index = 0; index < MAX_INPUTS; index++) holder.inputs[index] = -1;
  setsid();
  holder.tty = json_truth(request, "tty");
  struct ends theirs;
  if (holder.tty ? !open_terminal(&holder, &theirs, request, account) : !open_pipes(&holder, &theirs, json_truth(request, "stdin"))) {
    send_error(client, "internal", "no %s: %s", holder.tty ? "terminal" : "pipe", strerror(errno));
    return;
  }
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  sigprocmask(SIG_BLOCK, &mask, NULL);
  holder.signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  holder.pid = fork();
  if (holder.pid == 0) become_process(request, account, theirs, holder.tty);
  close(theirs.input);
  if (!holder.tty) close(theirs.output), close(theirs.error);
  snprintf(holder.name, sizeof holder.name, "%d", holder.pid);
  snprintf(process_path, sizeof process_path, PROCESS_DIRECTORY "/%s", holder.name);
  if (asprintf(&process_record, "%s.json", process_path) < 0) return;
  holder.listener = holder.pid < 0 ? -1 : open_holder(PROCESS_DIRECTORY, holder.name);
  if (holder.listener < 0 || !write_record(&holder, request)) {
    if (holder.pid > 0) kill(-holder.pid, SIGKILL);
    send_error(client, "internal", "cannot hold the process: %s", strerror(errno));
    return;
  }
  int64_t timeout = json_number(request, "timeoutMs", 0);
  if (timeout > 0) holder.kill_ms = monotonic_ms() + timeout;
  subscribe(&holder, client);
  hold(&holder);
}

void serve_start(int fd, struct json_object *request, const struct account *account) {
  size_t count;
  json_list(request, "argv", &count);
  char directory[4096];
  struct stat found;
  if (count == 0) {
    send_error(fd, "invalid_argument", "argv is empty");
    return;
  }
  if (!resolve_path(fd, account, json_text(request, "cwd", ""), directory)) return;
  bool given = *json_text(request, "cwd", "") != 0;
  if (stat(directory, &found) < 0 || !S_ISDIR(found.st_mode)) {
    if (given) {
      send_error(fd, "invalid_argument", "cwd: %.300s is not a directory", directory);
      return;
    }
    strcpy(directory, "/");
  }
  if (request->count < JSON_MAX_MEMBERS)
    request->members[request->count++] = (struct json_member){.key = "directory", .kind = JSON_STRING, .text = directory};
  if (fork() == 0) {
    run_holder(fd, request, account);
    _exit(0);
  }
}

/* ---- requests about a process ---- */

/* The pid as text, found by tag where no pid is given. */
static bool find_process(struct json_object *request, char name[24]) {
  int64_t pid = json_number(request, "pid", 0);
  snprintf(name, 24, "%lld", (long long)pid);
  const char *tag = json_text(request, "tag", "");
  if (pid > 0 || !*tag) return pid > 0;
  DIR *directory = opendir(PROCESS_DIRECTORY);
  bool found = false;
  for (struct dirent *entry; !found && directory && (entry = readdir(directory));) {
    static struct json_object record;
    char path[300];
    size_t length;
    if (!strstr(entry->d_name, ".json")) continue;
    snprintf(path, sizeof path, PROCESS_DIRECTORY "/%.255s", entry->d_name);
    char *text = read_all(path, MAX_REQUEST_BYTES, &length);
    if (!text) continue;
    text[strcspn(text, "\n")] = 0;
    if (json_read(text, &record) && strcmp(json_text(&record, "tag", ""), tag) == 0) {
      snprintf(name, 24, "%lld", (long long)json_number(&record, "pid", 0));
      found = true;
    }
    free(text);
  }
  if (directory) closedir(directory);
  return found;
}

static void serve_signal(int fd, const char *name, int number) {
  char path[160];
  snprintf(path, sizeof path, PROCESS_DIRECTORY "/%s.json", name);
  pid_t pid = (pid_t)atoi(name);
  if (access(path, F_OK) < 0 || pid <= 1) send_error(fd, "not_found", "process %s is not running", name);
  else if (number != SIGKILL && number != SIGTERM) send_error(fd, "unimplemented", "only SIGKILL and SIGTERM are offered");
  else if (kill(-pid, number) < 0 && kill(pid, number) < 0) send_error(fd, "not_found", "process %s has ended", name);
  else send_done(fd);
}

void serve_process_request(int fd, struct json_object *request, const char *operation) {
  char name[24], message[64];
  if (!find_process(request, name)) {
    send_error(fd, "not_found", "no such process");
    return;
  }
  if (strcmp(operation, "signal") == 0) {
    serve_signal(fd, name, (int)json_number(request, "signal", 0));
    return;
  }
  if (strcmp(operation, "connect") == 0) strcpy(message, "s");
  else if (strcmp(operation, "input") == 0) strcpy(message, json_truth(request, "tty") ? "p" : "i");
  else if (strcmp(operation, "close-input") == 0) strcpy(message, "c");
  else if (strcmp(operation, "resize") == 0)
    snprintf(message, sizeof message, "r%u %u", (unsigned)json_number(request, "rows", 0), (unsigned)json_number(request, "columns", 0));
  else {
    send_error(fd, "unimplemented", "unknown request process-%.40s", operation);
    return;
  }
  int holder = connect_holder(PROCESS_DIRECTORY, name);
  if (holder < 0 || !pass_descriptor(holder, message, strlen(message), fd)) send_error(fd, "not_found", "process %s is not running", name);
}

void serve_list_processes(int fd) {
  DIR *directory = opendir(PROCESS_DIRECTORY);
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    char path[300];
    size_t length;
    if (!strstr(entry->d_name, ".json")) continue;
    snprintf(path, sizeof path, PROCESS_DIRECTORY "/%.255s", entry->d_name);
    char *text = read_all(path, MAX_REQUEST_BYTES, &length);
    if (text && length > 0 && !send_frame(fd, FRAME_JSON, text, length)) return;
    free(text);
  }
  if (directory) closedir(directory);
  send_done(fd);
}

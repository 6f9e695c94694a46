/*
 * Programs that the host runs in the guest. Each stream has a credit; what cannot be sent stays in the program's pipe
 * and so stops the program, not the port. A program is reported as ended once it was reaped and its streams are
 * empty; a child that keeps a stream open is given a moment and then left alone.
 */
#define _GNU_SOURCE
#include "agent.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINGER_MS 250
#define HANGUP_GRACE_MS 1000

enum { STDOUT_STREAM, STDERR_STREAM, STREAMS };
static const char *const stream_names[STREAMS] = {"stdout", "stderr"};

struct stream {
  struct source source;
  struct program *program;
  int fd; /* -1 = ended */
  int64_t credit;
};

struct input {
  struct source source;
  struct program *program;
  int fd; /* -1 = closed */
  char *data;
  size_t length, sent;
  size_t ungranted;
  bool ending;
};

struct program {
  bool used;
  struct port *port; /* NULL = its session is gone */
  int64_t number;
  pid_t pid; /* 0 = reaped */
  int status;
  bool tty;
  int64_t reaped_ms, kill_ms;
  struct stream streams[STREAMS];
  struct input input;
};

static struct program programs[MAX_PROGRAMS];

static struct program *find(const struct port *port, int64_t number) {
  for (size_t index = 0; index < MAX_PROGRAMS; index++)
    if (programs[index].used && programs[index].port == port && programs[index].number == number) return &programs[index];
  return NULL;
}

static void begin(struct json_writer *writer, const struct program *program, const char *type) {
  json_open(writer);
  json_put_text(writer, "s", program->port->session);
  json_put_text(writer, "t", type);
  json_put_number(writer, "x", program->number);
}

/* With a terminal, input and output are one descriptor: only the output's entry watches it. */
static void close_input(struct program *program) {
  free(program->input.data);
  program->input.data = NULL;
  program->input.length = program->input.sent = 0;
  if (program->tty) program->input.fd = -1;
  else close_fd(&program->input.fd);
}

static void end_stream(struct stream *stream) {
  struct program *program = stream->program;
  if (stream->fd < 0) return;
  if (program->tty) close_input(program);
  close_fd(&stream->fd);
  if (!program->port) return;
  struct json_writer writer;
  begin(&writer, program, "end");
  json_put_text(&writer, "stream", stream_names[stream - program->streams]);
  port_send(program->port, &writer);
}

static void finish(struct program *program) {
  if (program->pid || program->streams[STDOUT_STREAM].fd >= 0 || program->streams[STDERR_STREAM].fd >= 0) return;
  close_input(program);
  if (program->port) {
    int signal = WIFSIGNALED(program->status) ? WTERMSIG(program->status) : 0;
    struct json_writer writer;
    begin(&writer, program, "exit");
    json_put_number(&writer, "code", signal ? 128 + signal : WEXITSTATUS(program->status));
    json_put_number(&writer, "signal", signal);
    port_send(program->port, &writer);
  }
  memset(program, 0, sizeof *program);
}

/* Without a listener output is read and thrown away, so that the program can end. */
static size_t allowance(const struct stream *stream) {
  if (!stream->program->port) return MAX_DATA_BYTES;
  if (stream->credit <= 0 || port_is_busy(stream->program->port)) return 0;
  return stream->credit < MAX_DATA_BYTES ? (size_t)stream->credit : MAX_DATA_BYTES;
}

static void watch_stream(struct stream *stream) {
  uint32_t events = allowance(stream) > 0 ? EPOLLIN : 0;
  if (stream->program->tty && stream->program->input.length > stream->program->input.sent) events |= EPOLLOUT;
  /* Hang-up is reported even when nothing is asked for; by edge it cannot make us spin while we may not read. */
  agent_watch(stream->fd, events | EPOLLET, &stream->source);
}

/* Returns false when there is nothing more to read now. */
static bool pump(struct stream *stream) {
  static char data[MAX_DATA_BYTES];
  size_t room = allowance(stream);
  if (room == 0) return false;
  ssize_t got = read(stream->fd, data, room);
  if (got < 0 && errno == EINTR) return true;
  if (got < 0 && errno == EAGAIN) return false;
  if (got <= 0) { /* a terminal whose last user is gone says EIO */
    end_stream(stream);
    return false;
  }
  if (!stream->program->port) return true;
  stream->credit -= got;
  struct json_writer writer;
  begin(&writer, stream->program, "out");
  json_put_text(&writer, "stream", stream_names[stream - stream->program->streams]);
  json_put_base64(&writer, "data", data, (size_t)got);
  port_send(stream->program->port, &writer);
  return true;
}

static void serve_stream(struct stream *stream) {
  struct program *program = stream->program;
  while (stream->fd >= 0 && pump(stream)) continue;
  if (stream->fd >= 0) watch_stream(stream);
  else finish(program);
}

static void grant_input(struct program *program) {
  struct input *input = &program->input;
  bool idle = input->length == input->sent;
  if (!program->port || input->ungranted == 0 || (!idle && input->ungranted < INITIAL_CREDIT_BYTES / 4)) return;
  struct json_writer writer;
  begin(&writer, program, "credit");
  json_put_number(&writer, "bytes", (int64_t)input->ungranted);
  port_send(program->port, &writer);
  input->ungranted = 0;
}

static void feed(struct program *program) {
  struct input *input = &program->input;
  while (input->fd >= 0 && input->sent < input->length) {
    ssize_t sent = write(input->fd, input->data + input->sent, input->length - input->sent);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent <= 0) { /* it reads no more: swallow the rest, so that the host is not kept waiting */
      input->ungranted += input->length - input->sent;
      input->sent = input->length;
      break;
    }
    input->sent += (size_t)sent;
    input->ungranted += (size_t)sent;
  }
  grant_input(program);
  if (input->fd < 0 || input->sent < input->length) return;
  input->sent = input->length = 0;
  if (!input->ending) return;
  if (program->tty) input->ending = write(input->fd, "\004", 1) < 0 && errno == EAGAIN;
  else close_input(program);
}

static void stream_ready(struct source *source, uint32_t events) {
  struct stream *stream = (struct stream *)source;
  if (!stream->program || !stream->program->used) return;
  if (stream->program->tty && events & EPOLLOUT) feed(stream->program);
  if (stream->fd >= 0) serve_stream(stream);
}

static void input_ready(struct source *source, uint32_t events) {
  struct input *input = (struct input *)source;
  if (!input->program || !input->program->used) return;
  if (events & EPOLLERR) { /* the reading end is closed */
    input->ungranted += input->length - input->sent;
    input->sent = input->length;
    grant_input(input->program);
    close_input(input->program);
    return;
  }
  feed(input->program);
}

void program_input(struct port *port, int64_t number, char *data) {
  struct program *program = find(port, number);
  ssize_t length = base64_decode(data);
  if (!program || length <= 0) return;
  struct input *input = &program->input;
  if (input->fd < 0 || input->ending) {
    input->ungranted += (size_t)length;
    grant_input(program);
    return;
  }
  if (input->length + (size_t)length > INITIAL_CREDIT_BYTES) {
    memmove(input->data, input->data + input->sent, input->length - input->sent);
    input->length -= input->sent;
    input->sent = 0;
  }
  /* More than it was allowed: such a host cannot be served. */
  if (input->length + (size_t)length > INITIAL_CREDIT_BYTES) {
    if (program->pid) kill(-program->pid, SIGKILL);
    return;
  }
  memcpy(input->data + input->length, data, (size_t)length);
  input->length += (size_t)length;
  feed(program);
  if (program->tty && program->streams[STDOUT_STREAM].fd >= 0) watch_stream(&program->streams[STDOUT_STREAM]);
}

void program_end_input(struct port *port, int64_t number) {
  struct program *program = find(port, number);
  if (!program || program->input.fd < 0) return;
  program->input.ending = true;
  feed(program);
}

void program_resize(struct port *port, int64_t number, int rows, int columns) {
  struct program *program = find(port, number);
  if (!program || !program->tty || program->streams[STDOUT_STREAM].fd < 0) return;
  struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
  ioctl(program->streams[STDOUT_STREAM].fd, TIOCSWINSZ, &size);
}

void program_signal(struct port *port, int64_t number, const char *name) {
  static const struct {
    const char *name;
    int signal;
  } known[] = {{"TERM", SIGTERM}, {"INT", SIGINT}, {"HUP", SIGHUP}, {"KILL", SIGKILL}, {"QUIT", SIGQUIT}};
  struct program *program = find(port, number);
  for (size_t index = 0; program && program->pid && index < sizeof known / sizeof *known; index++)
    if (strcmp(known[index].name, name) == 0) kill(-program->pid, known[index].signal);
}

void program_credit(struct port *port, int64_t number, const char *stream, int64_t bytes) {
  struct program *program = find(port, number);
  if (!program || bytes <= 0 || bytes > 1 << 30) return;
  struct stream *found = &program->streams[strcmp(stream, "stderr") == 0 ? STDERR_STREAM : STDOUT_STREAM];
  found->credit += bytes;
  if (found->fd >= 0) serve_stream(found);
}

void programs_continue(struct port *port) {
  for (size_t index = 0; index < MAX_PROGRAMS; index++)
    for (int stream = 0; stream < STREAMS; stream++)
      if (programs[index].used && programs[index].port == port && programs[index].streams[stream].fd >= 0)
        serve_stream(&programs[index].streams[stream]);
}

/* The port's session is over: its programs are told, and ended if they do not listen. */
void programs_leave(struct port *port) {
  for (size_t index = 0; index < MAX_PROGRAMS; index++) {
    struct program *program = &programs[index];
    if (!program->used || program->port != port) continue;
    program->port = NULL;
    if (program->pid) {
      kill(-program->pid, SIGHUP);
      program->kill_ms = monotonic_ms() + HANGUP_GRACE_MS;
      agent_wake_at(program->kill_ms);
    }
    close_input(program);
    for (int stream = 0; stream < STREAMS; stream++)
      if (program->used && program->streams[stream].fd >= 0) serve_stream(&program->streams[stream]);
  }
}

void programs_reap(void) {
  int status;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    for (size_t index = 0; index < MAX_PROGRAMS; index++) {
      struct program *program = &programs[index];
      if (!program->used || program->pid != pid) continue;
      program->pid = 0;
      program->status = status;
      program->reaped_ms = monotonic_ms();
      agent_wake_at(program->reaped_ms + LINGER_MS);
      for (int stream = 0; stream < STREAMS; stream++)
        if (program->used && program->streams[stream].fd >= 0) serve_stream(&program->streams[stream]);
      if (program->used) finish(program);
      break;
    }
  }
}

static bool has_data(int fd) {
  struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
  return poll(&poll_fd, 1, 0) > 0 && poll_fd.revents & POLLIN;
}

void programs_tick(int64_t now_ms) {
  for (size_t index = 0; index < MAX_PROGRAMS; index++) {
    struct program *program = &programs[index];
    if (!program->used) continue;
    if (program->pid && program->kill_ms) {
      if (now_ms >= program->kill_ms) {
        kill(-program->pid, SIGKILL);
        program->kill_ms = 0;
      } else {
        agent_wake_at(program->kill_ms);
      }
    }
    if (program->pid) continue;
    if (now_ms < program->reaped_ms + LINGER_MS) {
      agent_wake_at(program->reaped_ms + LINGER_MS);
      continue;
    }
    for (int stream = 0; stream < STREAMS; stream++)
      if (program->streams[stream].fd >= 0 && !has_data(program->streams[stream].fd)) end_stream(&program->streams[stream]);
    finish(program);
  }
}

static void adopt(struct program *program, const struct ends *ours) {
  int fds[STREAMS] = {ours->output, ours->error};
  for (int index = 0; index < STREAMS; index++) {
    struct stream *stream = &program->streams[index];
    *stream = (struct stream){{stream_ready}, program, fds[index], INITIAL_CREDIT_BYTES};
    if (stream->fd >= 0) watch_stream(stream);
  }
  program->input.source.ready = input_ready;
  program->input.program = program;
  program->input.fd = ours->input;
  if (ours->input >= 0 && !program->tty) agent_watch(ours->input, EPOLLOUT | EPOLLET, &program->input.source);
}

static struct program *free_program(void) {
  for (size_t index = 0; index < MAX_PROGRAMS; index++)
    if (!programs[index].used) return &programs[index];
  return NULL;
}

const char *program_start(struct port *port, int64_t number, struct json_object *request, pid_t *pid, char message[160]) {
  struct program *program = free_program();
  if (!program) {
    snprintf(message, 160, "%d programs are running already", MAX_PROGRAMS);
    return "busy";
  }
  bool tty = json_truth(request, "tty");
  struct ends ours;
  const char *code = exec_request(request, &ours, pid, message);
  if (code) return code;
  *program = (struct program){.used = true, .port = port, .number = number, .pid = *pid, .tty = tty};
  program->input.data = json_truth(request, "stdin") ? malloc(INITIAL_CREDIT_BYTES) : NULL;
  if (!program->input.data) {
    if (!tty) close_fd(&ours.input);
    ours.input = -1;
  }
  adopt(program, &ours);
  return NULL;
}

/*
 * Ports: lines in, lines out. A virtio-serial port that no program on the host has open reports "hung up" all the time, so
 * ports are watched by edge: the kernel wakes us when the host connects, when data comes and when there is room again.
 */
#define _GNU_SOURCE
#include "agent.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <linux/vm_sockets.h>
#include <unistd.h>

#define RETRY_MS 100

static struct port ports[MAX_PORTS];
static bool prepared;
static int64_t retry_ms = -1;

static void prepare(void) {
  if (prepared) return;
  for (size_t index = 0; index < MAX_PORTS; index++) ports[index].fd = -1;
  prepared = true;
}

void port_forget_answers(struct port *port) {
  for (size_t index = 0; index < KEPT_ANSWERS; index++) free(port->answers[index].line);
  memset(port->answers, 0, sizeof port->answers);
}

static void drop_queue(struct port *port) {
  port->queue_length = port->queue_sent = 0;
}

static void close_port(struct port *port) {
  programs_leave(port);
  port_forget_answers(port);
  close(port->fd);
  free(port->input);
  free(port->queue);
  memset(port, 0, sizeof *port);
  port->fd = -1;
}

static void take_lines(struct port *port) {
  char *start = port->input, *end = port->input + port->input_length, *stop;
  while ((stop = memchr(start, '\n', (size_t)(end - start)))) {
    *stop = 0;
    bool whole = !port->skipping && (size_t)(stop - start) == strlen(start);
    port->skipping = false;
    if (whole && *start) request_line(port, start);
    if (port->fd < 0) return;
    start = stop + 1;
  }
  port->input_length = (size_t)(end - start);
  memmove(port->input, start, port->input_length);
  if (port->input_length < MAX_LINE_BYTES) return;
  port->input_length = 0;
  port->skipping = true;
}

static void read_port(struct port *port) {
  for (;;) {
    ssize_t got = read(port->fd, port->input + port->input_length, MAX_LINE_BYTES - port->input_length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) break;
    port->input_length += (size_t)got;
    take_lines(port);
    if (port->fd < 0) return;
  }
  /* The host closed the port. What was meant for that client is of no use to the next one. */
  port->input_length = 0;
  port->skipping = false;
  drop_queue(port);
}

static void flush_port(struct port *port) {
  while (port->queue_sent < port->queue_length) {
    ssize_t sent = write(port->fd, port->queue + port->queue_sent, port->queue_length - port->queue_sent);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    port->queue_sent += (size_t)sent;
  }
  drop_queue(port);
}

static void port_ready(struct source *source, uint32_t events) {
  struct port *port = (struct port *)source;
  (void)events;
  if (port->fd < 0) return;
  bool busy = port_is_busy(port);
  read_port(port);
  if (port->fd < 0) return;
  flush_port(port);
  if (busy && !port_is_busy(port)) programs_continue(port);
}

static void connection_ready(struct source *source, uint32_t events) {
  struct port *port = (struct port *)source;
  port_ready(source, events);
  if (port->fd >= 0 && events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) close_port(port);
}

static struct port *free_port(void) {
  for (size_t index = 0; index < MAX_PORTS; index++)
    if (ports[index].fd < 0) return &ports[index];
  return NULL;
}

static void serve(struct port *port, int fd, const char *name, void (*ready)(struct source *source, uint32_t events)) {
  memset(port, 0, sizeof *port);
  port->fd = -1;
  port->input = malloc(MAX_LINE_BYTES);
  if (!port->input) {
    close(fd);
    return;
  }
  port->fd = fd;
  port->source.ready = ready;
  snprintf(port->name, sizeof port->name, "%s", name);
  agent_watch(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, &port->source);
}

static bool is_open(const char *name) {
  for (size_t index = 0; index < MAX_PORTS; index++)
    if (ports[index].fd >= 0 && strcmp(ports[index].name, name) == 0) return true;
  return false;
}

/* A port can be opened only once at a time: the ones we have are left alone. */
void ports_open(void) {
  prepare();
  DIR *directory = opendir("/sys/class/virtio-ports");
  if (!directory) return;
  for (struct dirent *entry; (entry = readdir(directory));) {
    char path[300], name[64] = "";
    if (entry->d_name[0] == '.' || is_open(entry->d_name)) continue;
    snprintf(path, sizeof path, "/sys/class/virtio-ports/%s/name", entry->d_name);
    read_text(path, name, sizeof name);
    if (strncmp(name, PORT_PREFIX, strlen(PORT_PREFIX)) != 0) continue;
    snprintf(path, sizeof path, "/dev/%s", entry->d_name);
    struct port *port = free_port();
    int fd = port ? open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd >= 0) serve(port, fd, entry->d_name, port_ready);
    else retry_ms = monotonic_ms() + RETRY_MS; /* its file is not there yet, or a dying agent still has it */
  }
  closedir(directory);
}

void ports_tick(int64_t now_ms) {
  if (retry_ms >= 0 && now_ms >= retry_ms) {
    retry_ms = -1;
    ports_open();
  }
  if (retry_ms >= 0) agent_wake_at(retry_ms);
}

static int listen_fd = -1;

static void listen_ready(struct source *source, uint32_t events) {
  (void)source;
  (void)events;
  struct sockaddr_vm peer;
  socklen_t length = sizeof peer;
  for (int fd; (fd = accept4(listen_fd, (struct sockaddr *)&peer, &length, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
    struct port *port = peer.svm_cid == VMADDR_CID_HOST ? free_port() : NULL;
    if (port) serve(port, fd, "", connection_ready);
    else close(fd);
    length = sizeof peer;
  }
}

/* The same language by vsock, where the machine has it; only the host may come. */
void ports_listen(void) {
  static struct source source = {listen_ready};
  listen_fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listen_fd < 0) return;
  struct sockaddr_vm address = {.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY, .svm_port = VSOCK_PORT};
  if (bind(listen_fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(listen_fd, 8) == 0)
    agent_watch(listen_fd, EPOLLIN, &source);
}

bool port_is_busy(const struct port *port) { return port->queue_length - port->queue_sent > BUSY_QUEUE_BYTES; }

bool ports_connect(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  prepare();
  if (strlen(path) >= sizeof address.sun_path) return false;
  memcpy(address.sun_path, path, strlen(path) + 1);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0) return false;
  fcntl(fd, F_SETFL, O_NONBLOCK);
  serve(&ports[0], fd, "", connection_ready);
  return true;
}

static bool make_room(struct port *port, size_t length) {
  if (port->queue_length - port->queue_sent + length > MAX_QUEUE_BYTES) return false;
  if (port->queue_length + length <= port->queue_capacity) return true;
  if (port->queue_sent > 0) {
    memmove(port->queue, port->queue + port->queue_sent, port->queue_length - port->queue_sent);
    port->queue_length -= port->queue_sent;
    port->queue_sent = 0;
  }
  if (port->queue_length + length <= port->queue_capacity) return true;
  size_t capacity = (port->queue_length + length) * 2;
  char *grown = realloc(port->queue, capacity);
  if (!grown) return false;
  port->queue = grown;
  port->queue_capacity = capacity;
  return true;
}

/* A host that asks without reading loses answers, and asks again. */
void port_send_line(struct port *port, const char *line, size_t length) {
  if (!make_room(port, length)) return;
  memcpy(port->queue + port->queue_length, line, length);
  port->queue_length += length;
}

/* Queues what was written and frees it. */
void port_send(struct port *port, struct json_writer *writer) {
  json_close(writer);
  if (!writer->failed) port_send_line(port, writer->data, writer->length);
  free(writer->data);
}

void ports_flush(void) {
  for (size_t index = 0; index < MAX_PORTS; index++)
    if (ports[index].fd >= 0) flush_port(&ports[index]);
}

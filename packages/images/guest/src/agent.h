/*
 * The agent: a loop over ports (virtio-serial, or a vsock connection) and programs. A port has one session, its numbers
 * and its programs; see agent-protocol.ts of the vm package for the language.
 */
#ifndef COCOON_AGENT_H
#define COCOON_AGENT_H

#include "guest.h"
#include "json.h"
#include <sys/epoll.h>

#define PORT_PREFIX "org.cocoon.agent."
#define VSOCK_PORT 1024
#define MAX_PORTS 12
#define MAX_PROGRAMS 64
#define MAX_LINE_BYTES (48 * 1024)
#define MAX_DATA_BYTES (24 * 1024)
#define INITIAL_CREDIT_BYTES (256 * 1024)
#define KEPT_ANSWERS 64
/* Output of programs waits for the host in their pipes, not here, once this much is queued on a port. */
#define BUSY_QUEUE_BYTES (128 * 1024)
#define MAX_QUEUE_BYTES (1024 * 1024)

/* First member of everything that epoll reports. */
struct source {
  void (*ready)(struct source *source, uint32_t events);
};

struct answer {
  int64_t id;
  char *line;
  size_t length;
};

struct port {
  struct source source;
  int fd; /* -1 = this slot is free */
  char name[64];
  char session[64];
  int64_t newest_id;
  struct answer answers[KEPT_ANSWERS];
  size_t next_answer;
  char *input;
  size_t input_length;
  bool skipping; /* the rest of a line that was too long */
  char *queue;
  size_t queue_length, queue_capacity, queue_sent;
};

/* agent.c */
extern int agent_epoll;
void agent_watch(int fd, uint32_t events, struct source *source);
/* The loop comes back at this time at the latest. */
void agent_wake_at(int64_t when_ms);

/* agent-port.c */
void ports_open(void);
void ports_listen(void);
bool ports_connect(const char *path);
void ports_tick(int64_t now_ms);
bool port_is_busy(const struct port *port);
void port_send(struct port *port, struct json_writer *writer);
void port_send_line(struct port *port, const char *line, size_t length);
void port_forget_answers(struct port *port);
void ports_flush(void);

/* agent-request.c */
void request_line(struct port *port, char *line);
void request_tick(int64_t now_ms);

/* agent-program.c */
struct program;
/* Returns NULL when it was started, otherwise the error's code; message is then set. */
const char *program_start(struct port *port, int64_t number, struct json_object *request, pid_t *pid, char message[160]);
void program_input(struct port *port, int64_t number, char *data);
void program_end_input(struct port *port, int64_t number);
void program_resize(struct port *port, int64_t number, int rows, int columns);
void program_signal(struct port *port, int64_t number, const char *name);
void program_credit(struct port *port, int64_t number, const char *stream, int64_t bytes);
void programs_leave(struct port *port);
void programs_reap(void);
void programs_tick(int64_t now_ms);
/* Called when a port has room again. */
void programs_continue(struct port *port);

/* agent-exec.c */
struct ends {
  int input, output, error; /* -1 = there is none */
};
void close_fd(int *fd);
/* Returns NULL when the program was started; ours are then the agent's ends, which do not block. */
const char *exec_request(struct json_object *request, struct ends *ours, pid_t *pid, char message[160]);

/* agent-identity.c */
void agent_apply_identity(struct json_object *request);
const char *agent_epoch(void);

#endif

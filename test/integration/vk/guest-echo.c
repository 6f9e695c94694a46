/* A TCP server for guests: sends everything back, each connection in a process of its own, and closes its side when
 * the other side is closed. busybox's nc takes one connection at a time. */
#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void serve(int client) {
  static char data[65536];
  ssize_t count;
  while ((count = read(client, data, sizeof data)) > 0)
    for (ssize_t done = 0; done < count;) {
      ssize_t sent = write(client, data + done, count - done);
      if (sent <= 0) _exit(1);
      done += sent;
    }
  shutdown(client, SHUT_WR);
  _exit(0);
}

int main(int count, char **words) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(count > 1 ? atoi(words[1]) : 7)};
  int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  signal(SIGCHLD, SIG_IGN);
  if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 128) < 0) return 1;
  if (fork() > 0) return 0; /* it listens: its parent may go on */
  setsid();
  for (int fd = 0; fd < 3; fd++) close(fd);
  for (;;) {
    int client = accept(listener, NULL, NULL);
    if (client < 0) continue;
    if (fork() == 0) {
      close(listener);
      serve(client);
    }
    close(client);
  }
}

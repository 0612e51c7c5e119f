/*
 * wire MICROSECONDS: two networks that reach only each other, 10.77.0.1 and 10.77.0.2, with a delay each way; for machines whose kernel has no netem.
 * Prints "NEAR FAR", the process ids that hold them: nsenter -t PID -U --preserve-credentials -n COMMAND runs there. Ends when its input ends.
 * Ends with 77, saying why, where this user may not make networks.
 *
 * Each network is a network namespace in a user namespace of its own, so that no privilege is needed. Its only way out is a TUN device, which this
 * program holds: what one sends is handed to the other when its time has come, in order. The queues are bounded; what the kernel can't keep before them is
 * lost, as in a router.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { QUEUED = 4096, LONGEST = 2048 };

struct packet { long long due; ssize_t length; char bytes[LONGEST]; };
struct way { struct packet *ring; unsigned first, count; int from, to; };

static _Noreturn void refuse(const char *what)
{
    fprintf(stderr, "no networks can be made here: %s: %s\n", what, strerror(errno));
    exit(77);
}

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) refuse(path);
    close(fd);
}

static void up(int s, struct ifreq *r)
{
    if (ioctl(s, SIOCGIFFLAGS, r)) refuse("flags of a device");
    r->ifr_flags |= IFF_UP | IFF_RUNNING;
    if (ioctl(s, SIOCSIFFLAGS, r)) refuse("starting a device");
}

static void set_address(int s, struct ifreq *r, unsigned long what, const char *text)
{
    struct sockaddr_in a = { .sin_family = AF_INET };
    inet_pton(AF_INET, text, &a.sin_addr);
    memcpy(&r->ifr_addr, &a, sizeof a);
    if (ioctl(s, what, r)) refuse(text);
}

/* A device of this network with that address; the network's loopback, too. */
static int device(const char *address)
{
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK), s = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq r = { .ifr_flags = IFF_TUN | IFF_NO_PI }, lo = { .ifr_name = "lo" };
    if (fd < 0) refuse("/dev/net/tun");
    strcpy(r.ifr_name, "wire");
    if (s < 0 || ioctl(fd, TUNSETIFF, &r)) refuse("a TUN device");
    set_address(s, &r, SIOCSIFADDR, address);
    set_address(s, &r, SIOCSIFNETMASK, "255.255.255.0");
    up(s, &r);
    up(s, &lo);
    close(s);
    return fd;
}

static pid_t keep_network(void)
{
    pid_t parent = getpid(), p = fork();
    if (p != 0) return p;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(0);
    close(1);
    while (getppid() == parent) pause();
    _exit(0);
}

static void take(struct way *w, long long delay)
{
    while (w->count < QUEUED) {
        struct packet *p = &w->ring[(w->first + w->count) % QUEUED];
        if ((p->length = read(w->from, p->bytes, sizeof p->bytes)) <= 0) return;
        p->due = now() + delay;
        w->count++;
    }
}

/* What is due goes out; the moment of the next one, or a second from now. */
static long long give(struct way *w, long long t)
{
    for (; w->count > 0; w->first = (w->first + 1) % QUEUED, w->count--) {
        struct packet *p = &w->ring[w->first];
        if (p->due > t) return p->due;
        if (write(w->to, p->bytes, (size_t)p->length) < 0 && errno != EAGAIN && errno != ENOBUFS) refuse("writing a packet");
    }
    return t + 1000000000LL;
}

static void relay(int near, int far, long long delay)
{
    struct way ways[2] = { { .from = near, .to = far }, { .from = far, .to = near } };
    for (int k = 0; k < 2; k++)
        if (!(ways[k].ring = malloc(QUEUED * sizeof(struct packet)))) refuse("memory");
    prctl(PR_SET_TIMERSLACK, 1L);
    for (;;) {
        long long t = now(), a = give(&ways[0], t), b = give(&ways[1], t), next = (a < b ? a : b) - t;
        struct timespec wait = { next / 1000000000LL, next % 1000000000LL };
        struct pollfd p[3] = { { .events = POLLIN }, { .events = POLLIN }, { .fd = 0, .events = POLLIN } };
        for (int k = 0; k < 2; k++) p[k].fd = ways[k].count < QUEUED ? ways[k].from : -1;
        if (ppoll(p, 3, &wait, NULL) < 0 && errno != EINTR) refuse("waiting");
        for (int k = 0; k < 2; k++) take(&ways[k], delay);
        if (p[2].revents) {
            char byte;
            if (read(0, &byte, 1) <= 0) return;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) return fprintf(stderr, "wire MICROSECONDS\n"), 2;
    uid_t uid = getuid();
    gid_t gid = getgid();
    char text[64];
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET)) refuse("user and network namespaces");
    prctl(PR_SET_DUMPABLE, 1);
    put("/proc/self/setgroups", "deny");
    snprintf(text, sizeof text, "0 %u 1", uid);
    put("/proc/self/uid_map", text);
    snprintf(text, sizeof text, "0 %u 1", gid);
    put("/proc/self/gid_map", text);
    int near = device("10.77.0.1");
    pid_t holder = keep_network();
    if (holder < 0 || unshare(CLONE_NEWNET)) refuse("a second network namespace");
    int far = device("10.77.0.2");
    printf("%d %d\n", (int)holder, (int)getpid());
    fflush(stdout);
    relay(near, far, atoll(argv[1]) * 1000);
    kill(holder, SIGKILL);
    return 0;
}

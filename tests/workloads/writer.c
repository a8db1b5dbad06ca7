/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that spend their time in write(2), next to threads that never enter it. */
#include "common.h"

#include <sys/mman.h>

GATED void write_block(int fd, const char *buf, size_t size);
GATED void write_blocks(int fd, const char *buf, size_t size);
GATED void spinner_leaf(void);
GATED void spinner(void);

enum sink { SINK_MEMFD, SINK_NULL, SINK_PIPE, SINK_FILE };

static enum sink sink = SINK_MEMFD;
static const char *path;
static size_t size = 4 << 20;
static unsigned int count = 1009;
static uint64_t until_ns;
static unsigned int writes;
static bool stop;

void write_block(int fd, const char *buf, size_t len)
{
	ssize_t n = write(fd, buf, len);

	if (n != (ssize_t)len)
		wl_fail("write gave %zd", n);
	/* The same memory again: the file must not grow with the length of the run. */
	if (sink == SINK_MEMFD || sink == SINK_FILE)
		lseek(fd, 0, SEEK_SET);
	no_tail_call();
}

void write_blocks(int fd, const char *buf, size_t len)
{
	unsigned int done = 0;

	while (until_ns ? wl_now_ns() < until_ns : done < count) {
		write_block(fd, buf, len);
		done++;
	}
	__atomic_fetch_add(&writes, done, __ATOMIC_RELAXED);
}

void spinner_leaf(void)
{
	burn_ns(NS_PER_MS);
}

void spinner(void)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		spinner_leaf();
}

static void *drain(void *arg)
{
	int fd = (int)(intptr_t)arg;
	static char buf[1 << 16];
	ssize_t n;

	pthread_setname_np(pthread_self(), "reader");
	do
		n = read(fd, buf, sizeof(buf));
	while (n > 0);
	close(fd);
	return NULL;
}

static void *write_thread(void *arg)
{
	pthread_t reader = 0;
	char *buf = (char *)malloc(size);
	int fds[2];

	(void)arg;
	pthread_setname_np(pthread_self(), "writer");
	if (!buf)
		wl_die("buffer");
	memset(buf, 0, size);
	switch (sink) {
	case SINK_MEMFD:
		fds[1] = memfd_create("writer", MFD_CLOEXEC);
		break;
	case SINK_NULL:
		fds[1] = open("/dev/null", O_WRONLY | O_CLOEXEC);
		break;
	case SINK_PIPE:
		if (pipe2(fds, O_CLOEXEC))
			wl_die("pipe");
		reader = wl_thread(NULL, drain, (void *)(intptr_t)fds[0]);
		break;
	case SINK_FILE:
		fds[1] = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		break;
	}
	if (fds[1] < 0)
		wl_die("sink");
	write_blocks(fds[1], buf, size);
	close(fds[1]);
	if (sink == SINK_PIPE)
		wl_join(reader);
	free(buf);
	return NULL;
}

static void *spin_thread(void *arg)
{
	pthread_setname_np(pthread_self(), "spinner");
	spinner();
	return arg;
}

int main(int argc, char **argv)
{
	unsigned int nr_writers = 1, nr_spinners = 1;
	pthread_t writers[64], spinners[64];
	uint64_t ms = 0;
	struct wl wl;
	int c;

	wl_init(&wl, "[-n WRITES | -t MS] [-s BYTES] [-j WRITERS] [-k SPINNERS]\n"
		     "       [-m memfd|null|pipe|FILE]");
	while ((c = getopt(argc, argv, WL_OPTS "n:t:s:j:k:m:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'n') {
			count = (unsigned int)wl_number(c, optarg, 1, 100000000);
		} else if (c == 't') {
			ms = wl_number(c, optarg, 1, 200000);
		} else if (c == 's') {
			size = wl_number(c, optarg, 1, 1 << 28);
		} else if (c == 'j') {
			nr_writers = (unsigned int)wl_number(c, optarg, 1, 64);
		} else if (c == 'k') {
			nr_spinners = (unsigned int)wl_number(c, optarg, 0, 64);
		} else if (c == 'm') {
			path = optarg;
			sink = !strcmp(path, "memfd")  ? SINK_MEMFD
			       : !strcmp(path, "null") ? SINK_NULL
			       : !strcmp(path, "pipe") ? SINK_PIPE
						       : SINK_FILE;
		}
	}
	wl_no_more(&wl, argc);
	wl_ready(&wl);
	if (ms)
		until_ns = wl_now_ns() + ms * NS_PER_MS;
	for (unsigned int i = 0; i < nr_spinners; i++)
		spinners[i] = wl_thread(NULL, spin_thread, NULL);
	for (unsigned int i = 0; i < nr_writers; i++)
		writers[i] = wl_thread(NULL, write_thread, NULL);
	for (unsigned int i = 0; i < nr_writers; i++)
		wl_join(writers[i]);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < nr_spinners; i++)
		wl_join(spinners[i]);
	printf("writes=%u writers=%u spinners=%u\n", writes, nr_writers, nr_spinners);
	return 0;
}

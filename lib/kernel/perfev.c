/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/perfev.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int perfev_open(const struct perf_event_attr *attr, uint32_t cpu)
{
	int fd = syscall(SYS_perf_event_open, attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int open_mapped(struct perfev_ring *ring, enum ring_stream stream,
		       const struct perf_event_attr *attr, uint32_t cpu, size_t data_bytes,
		       int prot)
{
	size_t page = sysconf(_SC_PAGESIZE);
	int fd = perfev_open(attr, cpu);
	void *base;

	if (fd < 0)
		return fd;
	base = mmap(NULL, page + data_bytes, prot, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED) {
		int err = -errno;

		close(fd);
		return err;
	}
	*ring = (struct perfev_ring){
		.fd = fd,
		.base = base,
		.data_bytes = data_bytes,
		.stream = stream,
	};
	return 0;
}

int perfev_ring_open(struct perfev_ring *ring, enum ring_stream stream, uint32_t cpu,
		     size_t data_bytes, bool prompt)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.watermark = 1,
		.wakeup_watermark = prompt ? 1 : data_bytes / 4,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};

	if (stream == RING_SAMPLES) {
		attr.config = PERF_COUNT_SW_BPF_OUTPUT;
		attr.sample_type = PERF_SAMPLE_RAW;
		attr.sample_period = 1;
	} else {
		attr.config = PERF_COUNT_SW_DUMMY;
		attr.sample_type = RING_SIDEBAND_SAMPLE_TYPE;
		attr.sample_id_all = 1;
		attr.mmap = 1;
		attr.mmap2 = 1;
		attr.comm = 1;
		attr.comm_exec = 1;
		attr.task = 1;
		attr.ksymbol = 1;
	}
	return open_mapped(ring, stream, &attr, cpu, data_bytes, PROT_READ | PROT_WRITE);
}

int perfev_ring_open_attr(struct perfev_ring *ring, const struct perf_event_attr *attr,
			  uint32_t cpu, size_t data_bytes)
{
	struct perf_event_attr copy = *attr;

	copy.watermark = 1;
	copy.wakeup_watermark = data_bytes / 4;
	return open_mapped(ring, RING_SIDEBAND, &copy, cpu, data_bytes, PROT_READ | PROT_WRITE);
}

int perfev_flight_open(struct perfev_ring *ring, uint32_t cpu, size_t data_bytes)
{
	const struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_BPF_OUTPUT,
		.sample_type = PERF_SAMPLE_RAW,
		.sample_period = 1,
		.write_backward = 1,
		/* Once a ring: the least that the kernel has. */
		.watermark = 1,
		.wakeup_watermark = UINT32_MAX,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};

	/* Without PROT_WRITE nobody can move the tail, and the kernel does not look at it. */
	return open_mapped(ring, RING_SAMPLES, &attr, cpu, data_bytes, PROT_READ);
}

struct flight_ring perfev_flight_ring(const struct perfev_ring *ring, uint64_t began_ns)
{
	const struct perf_event_mmap_page *page = ring->base;

	return (struct flight_ring){
		.head = &page->data_head,
		.data = (const char *)ring->base + page->data_offset,
		.bytes = ring->data_bytes,
		.began_ns = began_ns,
	};
}

void perfev_ring_close(struct perfev_ring *ring)
{
	if (!ring || !ring->base)
		return;
	munmap(ring->base, sysconf(_SC_PAGESIZE) + ring->data_bytes);
	close(ring->fd);
	*ring = (struct perfev_ring){.fd = -1};
}

void perfev_ring_read(struct perfev_ring *ring, struct ring_decoder *decoder,
		      int (*fn)(const struct ring_event *ev, void *arg), void *arg,
		      struct ring_stats *st)
{
	struct perf_event_mmap_page *page = ring->base;
	/* Pairs with the kernel's barrier between data and head (perf_output_put_handle). */
	uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = page->data_tail;

	if (head == tail)
		return;
	tail = ring_read(decoder, ring->stream, (char *)ring->base + page->data_offset,
			 ring->data_bytes, head, tail, fn, arg, st);
	/* The kernel may overwrite what is before the tail only after we have read it. */
	__atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
}

/* A record from the ring, which may be in two parts. */
static void copy_out(const struct perfev_ring *ring, uint64_t at, void *to, size_t bytes)
{
	const struct perf_event_mmap_page *page = ring->base;
	const char *data = (const char *)ring->base + page->data_offset;
	size_t from = at & (ring->data_bytes - 1), part = ring->data_bytes - from;

	if (part > bytes)
		part = bytes;
	memcpy(to, data + from, part);
	memcpy((char *)to + part, data, bytes - part);
}

int perfev_ring_raw(struct perfev_ring *ring, void *room,
		    int (*fn)(const void *record, size_t bytes, void *arg), void *arg)
{
	struct perf_event_mmap_page *page = ring->base;
	uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = page->data_tail;
	int ret = 0;

	if (head - tail > ring->data_bytes) {
		tail = head;
		ret = -EBADMSG;
	}
	while (!ret && head - tail >= sizeof(struct perf_event_header)) {
		struct perf_event_header h;

		copy_out(ring, tail, &h, sizeof(h));
		if (h.size < sizeof(h) || h.size > head - tail) {
			tail = head;
			ret = -EBADMSG;
			break;
		}
		copy_out(ring, tail, room, h.size);
		tail += h.size;
		ret = fn(room, h.size, arg);
	}
	__atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
	return ret;
}

int perfev_id(int fd, uint64_t *id)
{
	return ioctl(fd, PERF_EVENT_IOC_ID, id) ? -errno : 0;
}

int perfev_enable(int fd)
{
	return ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) ? -errno : 0;
}

int perfev_disable(int fd)
{
	return ioctl(fd, PERF_EVENT_IOC_DISABLE, 0) ? -errno : 0;
}

int perfev_count(int fd, struct perfev_count *count)
{
	struct perfev_count c;
	ssize_t n = read(fd, &c, sizeof(c));

	if (n != sizeof(c))
		return n < 0 ? -errno : -EIO;
	*count = c;
	return 0;
}

int perfev_redirect(int fd, int ring_fd)
{
	return ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring_fd) ? -errno : 0;
}

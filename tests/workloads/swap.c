/* SPDX-License-Identifier: BSD-2-Clause */
/* LDLIBS: -ldl */
/* Loads libraries, one after the other, where the one before was, and burns in them. */
#include "common.h"

#include <dlfcn.h>

GATED void call_first(void (*entry)(uint64_t), uint64_t ns);
GATED void call_second(void (*entry)(uint64_t), uint64_t ns);

void call_first(void (*entry)(uint64_t), uint64_t ns)
{
	entry(ns);
	no_tail_call();
}

void call_second(void (*entry)(uint64_t), uint64_t ns)
{
	entry(ns);
	no_tail_call();
}

static void *load(const char *path, void (**entry)(uint64_t))
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		wl_fail("%s", dlerror());
	*(void **)entry = dlsym(lib, "swap_entry");
	if (!*entry)
		wl_fail("%s", dlerror());
	return lib;
}

int main(int argc, char **argv)
{
	unsigned int rounds = 100, same = 0;
	const char *paths[2];
	uint64_t us = 5000;
	struct wl wl;
	int c;

	wl_init(&wl, "[-n ROUNDS] [-s US] LIBRARY [LIBRARY]");
	while ((c = getopt(argc, argv, WL_OPTS "n:s:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'n')
			rounds = (unsigned int)wl_number(c, optarg, 1, 100000);
		else if (c == 's')
			us = wl_number(c, optarg, 1, 10000000);
	}
	if (optind == argc)
		wl_usage(&wl);
	paths[0] = argv[optind++];
	paths[1] = optind < argc ? argv[optind++] : paths[0];
	wl_no_more(&wl, argc);
	wl_ready(&wl);
	for (unsigned int i = 0; i < rounds; i++) {
		void (*first)(uint64_t), (*second)(uint64_t);
		void *lib = load(paths[0], &first);

		call_first(first, us * NS_PER_US);
		if (dlclose(lib))
			wl_fail("%s", dlerror());
		lib = load(paths[1], &second);
		call_second(second, us * NS_PER_US);
		if (dlclose(lib))
			wl_fail("%s", dlerror());
		same += (uintptr_t)first == (uintptr_t)second;
	}
	printf("rounds=%u same=%u\n", rounds, same);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/hook.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/strbuf.h"

#define BLANKS " \t\n"

struct hook {
	char *text;  /* the words of argv, cut apart */
	char **argv; /* NULL-terminated */
	struct rlimit files;
	bool has_files;
	pid_t *running; /* at_once elements, the first n_running are used */
	unsigned int at_once, n_running;
	struct hook_counts counts;
};

void hook_free(struct hook *h)
{
	if (!h)
		return;
	hook_reap(h);
	free(h->text);
	free(h->argv);
	free(h->running);
	free(h);
}

void hook_counts(const struct hook *h, struct hook_counts *counts)
{
	*counts = h->counts;
}

static int split(struct hook *h)
{
	char *rest = h->text, *word;
	size_t n = 0;

	/* no more words than every other byte */
	h->argv = calloc(strlen(h->text) / 2 + 2, sizeof(*h->argv));
	if (!h->argv)
		return -ENOMEM;
	while ((word = strsep(&rest, BLANKS)))
		if (*word)
			h->argv[n++] = word;
	return n ? 0 : -EINVAL;
}

static int through_shell(struct hook *h)
{
	h->argv = calloc(4, sizeof(*h->argv));
	if (!h->argv)
		return -ENOMEM;
	if (!h->text[strspn(h->text, BLANKS)])
		return -EINVAL;
	h->argv[0] = (char *)"/bin/sh";
	h->argv[1] = (char *)"-c";
	h->argv[2] = h->text;
	return 0;
}

static int is_program(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EACCES;
	return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) ? -errno : 0;
}

/* Whether posix_spawnp() would find it; a program that is removed later fails then. */
static int look_up(const char *name)
{
	const char *path = getenv("PATH"), *end;
	struct strbuf sb;
	int err = -ENOENT;

	if (strchr(name, '/'))
		return is_program(name);
	sb_init(&sb);
	for (path = path ? path : "/bin:/usr/bin"; err; path = end + 1) {
		int found;

		end = strchrnul(path, ':');
		sb_reset(&sb);
		sb_add(&sb, path, (size_t)(end - path));
		sb_adds(&sb, end > path ? "/" : "./");
		sb_adds(&sb, name);
		found = sb.err ? sb.err : is_program(sb_str(&sb));
		if (!found || found == -EACCES || found == -ENOMEM)
			err = found;
		if (!found || found == -ENOMEM || !*end)
			break;
	}
	sb_release(&sb);
	return err;
}

int hook_new(const char *option, const char *command, bool shell, unsigned int at_once,
	     const struct rlimit *files, struct hook **out, struct failure *f)
{
	struct hook *h = calloc(1, sizeof(*h));
	int err = -ENOMEM;

	if (!h)
		return failure_nomem(f);
	h->at_once = at_once;
	h->has_files = files;
	if (files)
		h->files = *files;
	h->running = calloc(at_once ? at_once : 1, sizeof(*h->running));
	h->text = strdup(command);
	if (h->running && h->text)
		err = shell ? through_shell(h) : split(h);
	if (!err)
		err = look_up(h->argv[0]);
	if (!err)
		*out = h;
	else if (err == -ENOMEM)
		failure_nomem(f);
	else if (err == -EINVAL)
		failure_set(f, EXIT_WRONG_USAGE, err, "%s '%s': empty: name a command", option,
			    command);
	else
		failure_set(f, EXIT_WRONG_USAGE, err, "%s '%s': cannot run '%s': %s%s", option,
			    command, h->argv[0], strerror(-err),
			    shell ? "" : "; quotes and variables need a shell: --exec-shell");
	if (err)
		hook_free(h);
	return err;
}

/* Is the variable's name that of one in vars? */
static bool is_replaced(const char *variable, char *const vars[])
{
	size_t n = strcspn(variable, "=") + 1;

	for (; *vars; vars++)
		if (!strncmp(*vars, variable, n))
			return true;
	return false;
}

/* Only the array is allocated. */
static char **merge_environment(char *const vars[])
{
	size_t n = 0, n_vars = 0, n_old = 0;
	char **env;

	while (vars[n_vars])
		n_vars++;
	while (environ && environ[n_old])
		n_old++;
	env = calloc(n_vars + n_old + 1, sizeof(*env));
	if (!env)
		return NULL;
	for (size_t i = 0; i < n_vars; i++)
		env[n++] = vars[i];
	for (size_t i = 0; i < n_old; i++)
		if (!is_replaced(environ[i], vars))
			env[n++] = environ[i];
	return env;
}

static int set_attributes(posix_spawnattr_t *attr)
{
	sigset_t all, none;
	int err;

	sigfillset(&all);
	sigemptyset(&none);
	err = posix_spawnattr_setsigdefault(attr, &all);
	if (!err)
		err = posix_spawnattr_setsigmask(attr, &none);
	if (!err)
		err = posix_spawnattr_setpgroup(attr, 0);
	if (!err)
		err = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGDEF |
							     POSIX_SPAWN_SETSIGMASK |
							     POSIX_SPAWN_SETPGROUP);
	return err;
}

static int set_files(posix_spawn_file_actions_t *actions)
{
	int err;

	err = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	/* a tool whose standard error is closed has none to give */
	if (!err && fcntl(STDERR_FILENO, F_GETFD) < 0)
		err = posix_spawn_file_actions_addopen(actions, STDERR_FILENO, "/dev/null",
						       O_WRONLY, 0);
	if (!err)
		err = posix_spawn_file_actions_adddup2(actions, STDERR_FILENO, STDOUT_FILENO);
	/* Also those that the tool was given and knows nothing of. */
	if (!err)
		err = posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
	return err;
}

static int spawn(struct hook *h, char *const env[], pid_t *pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int err;

	err = posix_spawnattr_init(&attr);
	if (err)
		return -err;
	err = posix_spawn_file_actions_init(&actions);
	if (err) {
		posix_spawnattr_destroy(&attr);
		return -err;
	}
	err = set_attributes(&attr);
	if (!err)
		err = set_files(&actions);
	if (!err)
		err = posix_spawnp(pid, h->argv[0], &actions, &attr, h->argv, env);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return -err;
}

int hook_run(struct hook *h, char *const vars[])
{
	pid_t pid = 0;
	char **env;
	int err;

	if (hook_reap(h) >= h->at_once) {
		h->counts.skipped++;
		return -EAGAIN;
	}
	env = vars ? merge_environment(vars) : NULL;
	err = env ? spawn(h, env, &pid) : -ENOMEM;
	free(env);
	if (err) {
		if (!h->counts.not_started++)
			h->counts.start_err = err;
		return err;
	}
	if (h->has_files)
		prlimit(pid, RLIMIT_NOFILE, &h->files, NULL);
	h->running[h->n_running++] = pid;
	h->counts.started++;
	return 0;
}

unsigned int hook_reap(struct hook *h)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < h->n_running; i++) {
		int status = 0;
		pid_t got = waitpid(h->running[i], &status, WNOHANG);

		/* Who ignores SIGCHLD has no children to wait for: they are gone, too. */
		if (got == 0 || (got < 0 && errno == EINTR))
			h->running[kept++] = h->running[i];
		else if (got > 0 && (!WIFEXITED(status) || WEXITSTATUS(status)))
			h->counts.failed++;
	}
	h->n_running = kept;
	return kept;
}

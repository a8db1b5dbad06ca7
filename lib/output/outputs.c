/* SPDX-License-Identifier: BSD-2-Clause */
#include "output/outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static const char *folded_path(const struct opts *o)
{
	return o->output ? o->output : "-";
}

static const char *spell(const char *path)
{
	return strcmp(path, "-") ? path : "standard output";
}

static int cannot_write(const char *option, const char *path, int err, struct failure *f)
{
	return failure_set(f, EXIT_RUN, err, "%s: cannot write to %s: %s", option, spell(path),
			   strerror(-err));
}

static int open_one(const char *option, const char *path, struct outfile **of, struct failure *f)
{
	int err = path ? outfile_open(path, of) : 0;

	return err ? cannot_write(option, path, err, f) : 0;
}

int outputs_open(struct outputs *out, const struct opts *opts, bool folded, struct failure *f)
{
	int err;

	*out = (struct outputs){.opts = opts};
	if (opts->ready_fd >= 0 && fcntl(opts->ready_fd, F_GETFD) < 0)
		return failure_set(f, EXIT_WRONG_USAGE, -EBADF,
				   "--ready-fd %d: not an open file descriptor", opts->ready_fd);
	err = open_one("-o", folded ? folded_path(opts) : NULL, &out->folded, f);
	if (!err)
		err = open_one("--samples", opts->samples, &out->samples, f);
	if (!err)
		err = open_one("--perf-data", opts->perf_data, &out->perf_data, f);
	if (!err)
		err = open_one("--summary", opts->summary, &out->summary, f);
	if (err)
		outputs_abort(out);
	return err;
}

FILE *outputs_folded(const struct outputs *out)
{
	return outfile_stream(out->folded);
}

FILE *outputs_samples(const struct outputs *out)
{
	return out->samples ? outfile_stream(out->samples) : NULL;
}

FILE *outputs_perf_data(const struct outputs *out)
{
	return out->perf_data ? outfile_stream(out->perf_data) : NULL;
}

static int commit_one(const char *option, const char *path, struct outfile **of, struct failure *f)
{
	int err = *of ? outfile_commit(*of) : 0;

	*of = NULL;
	return err ? cannot_write(option, path, err, f) : 0;
}

int outputs_commit(struct outputs *out, struct account *a, outputs_json_fn write_json, int code,
		   struct failure *f)
{
	int err, summary_err;

	err = commit_one("-o", folded_path(out->opts), &out->folded, f);
	if (!err)
		err = commit_one("--samples", out->opts->samples, &out->samples, f);
	if (!err)
		err = commit_one("--perf-data", out->opts->perf_data, &out->perf_data, f);
	a->exit_code = err ? EXIT_RUN : code;
	if (!out->summary)
		return err;
	if (write_json)
		write_json(outfile_stream(out->summary), a);
	else
		account_write_json(outfile_stream(out->summary), a, NULL, NULL);
	summary_err = commit_one("--summary", out->opts->summary, &out->summary, err ? NULL : f);
	if (summary_err && !err)
		a->exit_code = EXIT_RUN;
	return err ? err : summary_err;
}

int outputs_failed(const struct outputs *out, int err, struct failure *f)
{
	const struct {
		const char *option, *path;
		struct outfile *of;
	} all[] = {
		{"-o", folded_path(out->opts), out->folded},
		{"--samples", out->opts->samples, out->samples},
		{"--perf-data", out->opts->perf_data, out->perf_data},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].of && ferror(outfile_stream(all[i].of)))
			return cannot_write(all[i].option, all[i].path, err, f);
	return err;
}

void outputs_abort(struct outputs *out)
{
	outfile_abort(out->folded);
	outfile_abort(out->samples);
	outfile_abort(out->summary);
	outfile_abort(out->perf_data);
	out->folded = out->samples = out->summary = out->perf_data = NULL;
}

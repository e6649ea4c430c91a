// SPDX-License-Identifier: GPL-2.0-only
/*
 * capadm completion: what completes command lines in bash, zsh and fish, from the tables
 * of commands.c. What is typed before the cursor is walked through by the shell: options
 * are left out, the command is found, and the place that is left says what may come.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capadm.h"

/*
 * Ids and names, of which those that are a word, and no option, to every shell; asking must
 * not load the module.
 */
#define DOMAINS "[ -e /sys/module/capkm ] && capadm --json domains 2>/dev/null | " \
	"sed -n -e 's/^ *\"id\": *\\([0-9]*\\),*$/\\1/p' " \
	"-e 's/^ *\"name\": *\"\\([A-Za-z0-9_][A-Za-z0-9._-]*\\)\",*$/\\1/p'"

typedef void (*option_fn)(enum option_id id);

static void each_option(const struct command *c, option_fn fn)
{
	int i;

	for (i = 0; i < OPT_N; i++)
		if (takes(c, i))
			fn(i);
}

static bool is_file_option(enum option_id id)
{
	return options[id].value && strstr(options[id].value, "PATH");
}

/* Options with a value, of files or of others, as the patterns of a case. */
static void print_value_options(bool files)
{
	const char *separator = "";
	int i;

	for (i = 0; i < OPT_N; i++) {
		if (!options[i].value || is_file_option(i) != files)
			continue;
		printf("%s--%s", separator, options[i].name);
		separator = " | ";
	}
}

/* As one word of a shell; @special gets a backslash, too. */
static void print_quoted(const char *s, const char *special)
{
	for (; *s; s++)
		if (*s == '\'')
			fputs("'\\''", stdout);
		else
			printf("%s%c", strchr(special, *s) ? "\\" : "", *s);
}

static size_t first_word(const char *name)
{
	return strcspn(name, " ");
}

/* The first word of a group is given with its first member. */
static bool is_first_of_group(const struct command *c)
{
	size_t len = first_word(c->name);
	const struct command *other;

	for (other = commands; other != c; other++)
		if (first_word(other->name) == len && !strncmp(other->name, c->name, len))
			return false;
	return true;
}

static bool is_in_group(const struct command *c)
{
	return c->name[first_word(c->name)];
}

static bool same_group(const struct command *a, const struct command *b)
{
	size_t len = first_word(a->name);

	return first_word(b->name) == len && !strncmp(a->name, b->name, len);
}

typedef void (*word_fn)(const char *word, size_t len, const char *help);

/* "create, rm, limit": two groups that are described alike would be one to a zsh. */
static char *group_help(const struct command *member)
{
	size_t len = first_word(member->name) + 1;
	char *all = format("%s", ""), *more;
	const struct command *c;

	for (c = commands; c->name; c++) {
		if (c->hidden || !same_group(c, member))
			continue;
		more = format("%s%s%s", all, *all ? ", " : "", c->name + len);
		free(all);
		all = more;
	}
	return all;
}

/* The words that may come first. */
static void each_first_word(word_fn fn)
{
	const struct command *c;
	char *help;

	for (c = commands; c->name; c++) {
		if (c->hidden || !is_first_of_group(c))
			continue;
		help = is_in_group(c) ? group_help(c) : format("%s", c->help);
		fn(c->name, first_word(c->name), help);
		free(help);
	}
}

/* The words that may come second, after the first of @member. */
static void each_second_word(const struct command *member, word_fn fn)
{
	size_t len = first_word(member->name) + 1;
	const struct command *c;

	for (c = commands; c->name; c++)
		if (!c->hidden && is_in_group(c) && same_group(c, member))
			fn(c->name + len, strlen(c->name + len), c->help);
}

static const char *args_of(const struct command *c)
{
	return c->args ? c->args : "";
}

/* ---- bash ---- */

static void bash_word(const char *word, size_t len, const char *help)
{
	(void)help;
	printf("%.*s|", (int)len, word);
}

static void bash_option(enum option_id id)
{
	printf("--%s ", options[id].name);
}

static void bash_command(const struct command *c)
{
	printf("\t'%s '*)\n\t\tline=${line#'%s '} args='%s'\n\t\toptions='", c->name, c->name,
	       args_of(c));
	each_option(c, bash_option);
	printf("' ;;\n");
}

static void bash_commands(void)
{
	const struct command *c;

	printf("\t'')\n\t\targs='");
	each_first_word(bash_word);
	printf("' ;;\n");
	for (c = commands; c->name; c++) {
		if (c->hidden)
			continue;
		if (is_in_group(c) && is_first_of_group(c)) {
			printf("\t'%.*s ')\n\t\tline='' args='", (int)first_word(c->name), c->name);
			each_second_word(c, bash_word);
			printf("' ;;\n");
		}
		bash_command(c);
	}
}

static void print_bash(void)
{
	printf("# bash completion for capadm; from: capadm completion bash\n"
	       "_capadm() {\n"
	       "\tlocal cur=${COMP_WORDS[COMP_CWORD]} line='' args='' options='--help --version' i n\n"
	       "\n"
	       "\tCOMPREPLY=()\n"
	       "\tcase ${COMP_WORDS[COMP_CWORD-1]} in\n\t");
	print_value_options(true);
	printf(")\n\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n\t\treturn ;;\n\t");
	print_value_options(false);
	printf(")\n\t\treturn ;;\n\tesac\n"
	       "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	       "\t\tcase ${COMP_WORDS[i]} in\n\t\t");
	print_value_options(true);
	printf(" | ");
	print_value_options(false);
	printf(") ((i++)) ;;\n"
	       "\t\t-*) ;;\n"
	       "\t\t*) line+=\"${COMP_WORDS[i]} \" ;;\n"
	       "\t\tesac\n"
	       "\tdone\n"
	       "\tcase $line in\n");
	bash_commands();
	printf("\tesac\n"
	       "\tif [[ $cur == -* ]]; then\n"
	       "\t\tmapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n"
	       "\t\treturn\n"
	       "\tfi\n"
	       "\tread -ra line <<<\"$line\"\n"
	       "\tread -ra args <<<\"$args\"\n"
	       "\tcase ${args[${#line[@]}]-} in\n"
	       "\t*DOMAIN*)\n"
	       "\t\targs=$(" DOMAINS ") ;;\n"
	       "\t*'|'*)\n"
	       "\t\targs=${args[${#line[@]}]//[|\\[\\]]/ } ;;\n"
	       "\t*)\n"
	       "\t\treturn ;;\n"
	       "\tesac\n"
	       "\tmapfile -t COMPREPLY < <(compgen -W \"$args\" -- \"$cur\")\n"
	       "}\n"
	       "complete -F _capadm capadm\n");
}

/* ---- zsh ---- */

static void zsh_entry(const char *word, size_t len, const char *help)
{
	printf(" '%.*s:", (int)len, word);
	print_quoted(help, ":\\");
	printf("'");
}

static void zsh_option(enum option_id id)
{
	printf(" '--%s:", options[id].name);
	print_quoted(options[id].help, ":\\");
	printf("'");
}

static void zsh_command(const struct command *c)
{
	printf("\t('%s '*)\n\t\tline=${line#'%s '} args='%s'\n\t\toptions=(", c->name, c->name,
	       args_of(c));
	each_option(c, zsh_option);
	printf(") ;;\n");
}

static void zsh_commands(void)
{
	const struct command *c;

	printf("\t('')\n\t\tcommands=(");
	each_first_word(zsh_entry);
	printf(") ;;\n");
	for (c = commands; c->name; c++) {
		if (c->hidden)
			continue;
		if (is_in_group(c) && is_first_of_group(c)) {
			printf("\t('%.*s ')\n\t\tcommands=(", (int)first_word(c->name), c->name);
			each_second_word(c, zsh_entry);
			printf(") ;;\n");
		}
		zsh_command(c);
	}
}

static void print_zsh(void)
{
	printf("#compdef capadm\n"
	       "# from: capadm completion zsh\n"
	       "_capadm() {\n"
	       "\tlocal line='' args='' i n\n"
	       "\tlocal -a commands options\n"
	       "\n"
	       "\toptions=('--help:what there is' '--version:of capadm and the module')\n"
	       "\tcase $words[CURRENT-1] in\n\t(");
	print_value_options(true);
	printf(") _files; return ;;\n\t(");
	print_value_options(false);
	printf(") return 1 ;;\n\tesac\n"
	       "\tfor ((i = 2; i < CURRENT; i++)); do\n"
	       "\t\tcase $words[i] in\n\t\t(");
	print_value_options(true);
	printf(" | ");
	print_value_options(false);
	printf(") ((i++)) ;;\n"
	       "\t\t(-*) ;;\n"
	       "\t\t(*) line+=\"$words[i] \" ;;\n"
	       "\t\tesac\n"
	       "\tdone\n"
	       "\tcase $line in\n");
	zsh_commands();
	printf("\tesac\n"
	       "\tif [[ $words[CURRENT] == -* ]]; then\n"
	       "\t\t_describe -o option options\n"
	       "\t\treturn\n"
	       "\tfi\n"
	       "\tif (( $#commands )); then\n"
	       "\t\t_describe command commands\n"
	       "\t\treturn\n"
	       "\tfi\n"
	       "\tset -- ${=line}\n"
	       "\tn=$#\n"
	       "\tset -- ${=args}\n"
	       "\t(( n < $# )) || return 1\n"
	       "\tshift $n\n"
	       "\tcase $1 in\n"
	       "\t(*DOMAIN*) compadd -- $(" DOMAINS ") ;;\n"
	       "\t(*\\|*) compadd -- ${(s:|:)${1//[\\[\\]]/}} ;;\n"
	       "\tesac\n"
	       "}\n"
	       "_capadm \"$@\"\n");
}

/* ---- fish ---- */

/* The condition that has been typed so far. */
static const struct command *fish_at;

static void fish_condition(const struct command *c)
{
	const char *second = c->name + first_word(c->name);

	printf("complete -c capadm -n '__fish_seen_subcommand_from %.*s",
	       (int)first_word(c->name), c->name);
	if (*second)
		printf("; and __fish_seen_subcommand_from%s", second);
	printf("'");
}

static void fish_first(const char *word, size_t len, const char *help)
{
	printf("complete -c capadm -n __fish_use_subcommand -a %.*s -d '", (int)len, word);
	print_quoted(help, "\\");
	printf("'\n");
}

static void fish_second(const char *word, size_t len, const char *help)
{
	printf("complete -c capadm -n '__fish_seen_subcommand_from %.*s' -a %.*s -d '",
	       (int)first_word(fish_at->name), fish_at->name, (int)len, word);
	print_quoted(help, "\\");
	printf("'\n");
}

static void fish_option(enum option_id id)
{
	fish_condition(fish_at);
	printf(" -l %s%s -d '", options[id].name,
	       !options[id].value ? "" : is_file_option(id) ? " -rF" : " -x");
	print_quoted(options[id].help, "\\");
	printf("'\n");
}

static void print_fish(void)
{
	const struct command *c;

	printf("# fish completion for capadm; from: capadm completion fish\n"
	       "function __capadm_domains\n"
	       "\tsh -c '");
	print_quoted(DOMAINS, "\\");
	printf("'\n"
	       "end\n"
	       "complete -c capadm -f\n");
	each_first_word(fish_first);
	for (c = commands; c->name; c++) {
		if (c->hidden)
			continue;
		fish_at = c;
		if (is_in_group(c) && is_first_of_group(c))
			each_second_word(c, fish_second);
		each_option(c, fish_option);
		if (!strstr(args_of(c), "DOMAIN"))
			continue;
		fish_condition(c);
		printf(" -a '(__capadm_domains)'\n");
	}
}

static const struct {
	const char *name;
	void (*print)(void);
} shells[] = {
	{ "bash", print_bash },
	{ "zsh", print_zsh },
	{ "fish", print_fish },
};

int cmd_completion(const struct request *rq)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(shells); i++)
		if (!strcmp(shells[i].name, rq->argv[0])) {
			shells[i].print();
			return EXIT_OK;
		}
	return usage(rq, "%s is no shell that can be helped; right are bash, zsh and fish",
		     rq->argv[0]);
}

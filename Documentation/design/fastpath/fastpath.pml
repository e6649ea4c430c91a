/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The fast path of scopes and checks, for Spin. ../fastpath.rst says what it is, what is
 * modelled and what was found; selftests/checks/model.sh runs it.
 *
 * Two buffers; two threads of a client, which have an entry of the scope table each; one
 * that leaves scopes which others entered; one that checks a buffer; and the kernel, which
 * is one process, since what it does is done under the domain's mutex.
 *
 * How much there is of each is said when it is compiled:
 *   R0 R1	scopes that threads 0 and 1 try to enter
 *   W0 W1	what they write: bit n allows the set n of buffers, which is a mask itself
 *   D0 D1	what they read
 *   K		changes that the kernel makes on its own
 *   ALL	of these may be of the whole session
 *   FAULT	may be a fault of the device
 *   REUSE	may use the index of a closed buffer again
 *   DEATHS	threads that may end anywhere, each followed by one that gets its entry
 *   CHECKS	checks that are made
 *   LEAVES	scopes that another thread may leave
 *
 * The environment says when it is run what is done wrong (MUTANT, a number below) and
 * how a check loads the mode (ORDER).
 */
/* What may be done otherwise; all but the last three is wrong. */
#define MUTANTS \
	M(CHECK_WORD_FIRST)	/* a check loads the word before the in-flight word */ \
	M(ENTER_NO_FENCE)	/* ENTERED is published without a fence after it */ \
	M(ENTER_NO_RELEASE)	/* ENTERED may be seen before the claims that it is about */ \
	M(STATE_FIRST)		/* an enter loads its own state before the words */ \
	M(STATE_NOT)		/* or not at all */ \
	M(READ_ONCE)		/* looks at in-flight words of what it reads before ENTERED only */ \
	M(READ_WORD_FIRST)	/* loads the word of what it reads before the in-flight word */ \
	M(READ_MIGRATED)	/* enters if MIGRATED, though what it reads has changed */ \
	M(MODE_NOT)		/* an enter does not load the mode after the fence */ \
	M(KERNEL_NO_BARRIER)	/* no barrier between the word and the look at the table */ \
	M(CHANGE_FIRST)		/* a buffer changes before the look at the table */ \
	M(NO_GENERATION)	/* ENTERED does not advance the generation */ \
	M(CLEAR_FIRST)		/* an exit clears the in-flight words before it is FREE */ \
	M(CLEAR_LATE_COPY)	/* another thread reads what to clear after the exit */ \
	M(STAMP_LATE)		/* an exit stamps after it is FREE */ \
	M(STAMP_NO_RELEASE)	/* its stamps may be seen after it is FREE */ \
	M(TAKEN_KEEPS)		/* who does not enter keeps what it claimed */ \
	M(TAKEN_CLEARS_ALL)	/* or clears what it has not claimed, too */ \
	M(SWEEP)		/* words that name an entry are swept before it is used again */ \
	M(USE_NOT_FREE)		/* an entry that is not FREE is used again */ \
	M(SAME_WORD)		/* an index is used again with the same word */ \
	M(MIGRATE_ALL)		/* the kernel migrates without a look at the other words */ \
	M(REVOKE_ALL)		/* the kernel revokes whatever it finds */ \
	M(MODE_MIGRATES)	/* it migrates what it finds while the mode is 0 */ \
	M(MODE_NO_SCAN)		/* it does not look at the table when the mode becomes 0 */ \
	M(WORDS_LATE)		/* words of a fault are published after the mode is 1 again */ \
	M(EXIT_BLIND)		/* an exit stores FREE instead of comparing */ \
	M(CLAIMS_FIRST)		/* the kernel loads claims before the state that they belong to */ \
	M(MODE_LAST)		/* an enter loads the mode after the words */ \
	/* and what is otherwise, but not wrong */ \
	M(LOOK_AGAIN)		/* if the kernel's exchange fails, it looks again */ \
	M(CLAIMS_UNSEEN)	/* it does not look whether the claims have the buffer */ \
	M(PUBLISH_COVERED)	/* a word is published while a migrated scope is open */

/* What must hold. */
#define ASSERTIONS \
	A(check_clean)		/* what a check finds clean was so, at some time while it went on */ \
	A(check_up)		/* and so was the session */ \
	A(read_clean)		/* what an enter reads was so, at some time since ENTERED */ \
	A(one_before_the_other)	/* of two, not each reads what the other writes */ \
	A(alone)		/* a buffer has one scope */ \
	A(held)			/* whose in-flight word names its entry from enter to exit */ \
	A(entered_clean)	/* when a scope enters, what it writes is as it expects */ \
	A(entered_up)		/* and so is the session */ \
	A(known)		/* what changes is open to the kernel only, after its look */ \
	A(took_its_claims)	/* the kernel has the claims of the scope that it migrates */ \
	A(migrated_clean)	/* which was entered before what changes now */ \
	A(migrated_up)		/* and before the session changed */ \
	A(never_revoked)	/* what has been entered is not revoked */ \
	A(exit_known)		/* an exit by the kernel finds the scope */ \
	A(stamped)		/* the kernel sees the stamps of scopes that it did not migrate */ \
	A(nothing_left)		/* in the end nothing is in flight, and entries are FREE */ \
	A(torn_asks)		/* but of dead threads, and of these checks ask */

#define REACHABLE \
	M(entered) M(entered_migrated) M(read_entered) M(taken) M(stale_word) M(entry_busy) \
	M(retracted) M(retracted_read) M(retracted_migrated) M(retracted_revoked) \
	M(left) M(left_migrated) M(left_failed) M(left_by_other) M(left_by_other_migrated) \
	M(left_by_other_failed) M(migrated_by_word) M(migrated_by_mode) M(revoked_by_word) \
	M(revoked_by_mode) M(exchange_failed) M(other_claims) M(mode_back) M(reset) M(index_reused) \
	M(check_clean) M(check_asks) M(entry_inherited) M(torn)

c_decl {
\#include <stdio.h>
\#include <stdlib.h>
\#include <string.h>

#define M(name) M_##name,
enum mutant { M_NONE, MUTANTS M_END };
#undef M
#define M(name) R_##name,
enum reachable { REACHABLE R_END };
#undef M
#define A(name) not_##name = 0,
enum { ASSERTIONS };
#define M(name) #name,
static const char *const mutants[] = { "", MUTANTS };
static const char *const reachable[] = { REACHABLE };
#undef M

enum amount {
	A_R0, A_R1, A_W0, A_W1, A_D0, A_D1, A_K, A_ALL, A_FAULT, A_REUSE, A_DEATHS, A_CHECKS,
	A_LEAVES, A_ORDER, AMOUNTS
};
static const struct {
	const char *name;
	int usual;
} amounts[] = {
	{ "R0", 1 }, { "R1", 1 }, { "W0", 14 }, { "W1", 14 }, { "D0", 1 }, { "D1", 1 }, { "K", 1 },
	{ "ALL", 0 }, { "FAULT", 0 }, { "REUSE", 0 }, { "DEATHS", 0 }, { "CHECKS", 0 },
	{ "LEAVES", 0 }, { "ORDER", 0 },
};
static int amount[AMOUNTS], mutant;
static unsigned long long reached_set;

static void report(void)
{
	int i;

	for (i = 0; i < R_END; i++)
		if (reached_set >> i & 1)
			printf("reached: %s\n", reachable[i]);
}

static void configure(void)
{
	const char *value = getenv("MUTANT");
	int i;

	for (i = 0; value && i < M_END; i++)
		if (!strcmp(value, mutants[i]))
			mutant = i;
	if (value && *value && !mutant) {
		fprintf(stderr, "no mutant %s\n", value);
		exit(2);
	}
	for (i = 0; i < AMOUNTS; i++) {
		value = getenv(amounts[i].name);
		amount[i] = value ? atoi(value) : amounts[i].usual;
	}
	atexit(report);
}
}
#define MUT(name) c_expr { mutant == M_##name }
#define HOW(name) c_expr { amount[A_##name] }
#define REACHED(name) c_code { reached_set |= 1ULL << R_##name; };
#define MUST(name, e) assert((e) || c_expr { not_##name })	/* so that pan names it */

#define FREE 0
#define ENTERED 1
#define MIGRATED 2
#define REVOKED 3
#define STATE(s) ((s) & 3)
#define WITH(s, state) (((s) & 252) | (state))
#define BIT(b) (1 << (b))
#define WORD(c, b) (((c) >> (2 + 2 * (b))) & 3)	/* what claims expect as word of b */

/* The two pages, as memory has them. */
bit mode = 1;		/* of the status page */
byte word[2] = 1;	/* of it: a buffer's generation, 1 or 2; or 0: ask */
byte flight[2];		/* of the scope table: 0, or entry + 1 */
bit dirty[2];		/* of it: the stamp of an exit */
byte claims[2];		/* of an entry: the set that it writes, and 2 bits of the word of each */
byte state[2];		/* of an entry: state, and a generation that ENTERED advances */

/* What a thread has stored and others may not see yet; 2 is the one that leaves. */
byte s_claims[2];
bit s_entered[2];
bit s_free[2];
byte s_clear[3];	/* in-flight words, a set */
byte s_dirty[3];
bit s_word[2];		/* the kernel's, without its barrier */
#define FENCE(t) (!s_claims[t] && !s_entered[t] && !s_free[t] && !s_clear[t] && !s_dirty[t])
#define NEXT(t) (WITH(state[t], ENTERED) + (MUT(NO_GENERATION) -> 0 : 4))

/* The kernel's own. */
byte kword[2] = 1;	/* what it has published */
bit kmode = 1;
byte gen[2] = 1;
bit bad[2];		/* tainted, shared, closed, claimed, covered by a scope of an ioctl, ... */
byte covers[2];		/* of an entry: what its migrated scope writes */
mtype = { EXIT, EXIT_FAILED, CHANGE, RESET, USE_AGAIN, DOWN, DOWN_FAULT, UP, NOTHING };
chan request = [0] of { mtype, byte, byte };	/* what, of which entry, who asks */
chan reply = [0] of { byte };

/* What is true, for the assertions. */
byte open[2];		/* what the scope of an entry writes, from its enter to its exit */
byte reads[2];		/* and read */
byte readable[2];	/* buffers that were so at some time since ENTERED was published */
byte publishing;	/* threads between ENTERED and the end of their enter, a set */
bit written[2];		/* a scope was left well, without the kernel, since the buffer was created */
bit down;		/* the session is not one for the fast path */
bit checking, c_clean, c_up;
byte c_b, c_word;
bit done[2], ended, died;
byte deaths, leaves;
byte to_leave[2];	/* ids of scopes that another thread is to leave */
bit leaving;

#define CLEAN(b, w, t) (gen[b] == (w) && !bad[b] && !(open[t] & BIT(b)))
/* Wherever a buffer may have become clean. */
#define NOTE \
	if :: checking && CLEAN(c_b, c_word, 0) && CLEAN(c_b, c_word, 1) -> c_clean = 1 :: else fi; \
	if \
	:: publishing & 1 -> \
		if :: CLEAN(0, 1, 1) -> readable[0] = readable[0] | 1 :: else fi; \
		if :: CLEAN(1, 1, 1) -> readable[0] = readable[0] | 2 :: else fi \
	:: else \
	fi; \
	if \
	:: publishing & 2 -> \
		if :: CLEAN(0, 1, 0) -> readable[1] = readable[1] | 1 :: else fi; \
		if :: CLEAN(1, 1, 0) -> readable[1] = readable[1] | 2 :: else fi \
	:: else \
	fi

/*
 * What was stored becomes visible in any order. What must not is held back where it is
 * stored: FENCE() and the exit's wait for its stamps.
 */
#define SEEN(t) \
	:: atomic { s_clear[t] & 1 -> flight[0] = 0; s_clear[t] = s_clear[t] & ~1 } \
	:: atomic { s_clear[t] & 2 -> flight[1] = 0; s_clear[t] = s_clear[t] & ~2 } \
	:: atomic { s_dirty[t] & 1 -> dirty[0] = 1; s_dirty[t] = s_dirty[t] & ~1 } \
	:: atomic { s_dirty[t] & 2 -> dirty[1] = 1; s_dirty[t] = s_dirty[t] & ~2 }
#define SEEN_ENTRY(t) \
	:: atomic { s_claims[t] -> claims[t] = s_claims[t]; s_claims[t] = 0 } \
	:: atomic { s_free[t] -> state[t] = WITH(state[t], FREE); s_free[t] = 0 } \
	:: atomic { s_entered[t] && (!s_claims[t] || MUT(ENTER_NO_RELEASE)) -> \
		state[t] = NEXT(t); s_entered[t] = 0 }

proctype Memory()
{
end:	do
	SEEN(0)
	SEEN(1)
	SEEN(2)
	SEEN_ENTRY(0)
	SEEN_ENTRY(1)
	:: atomic { s_word[0] -> word[0] = 0; s_word[0] = 0 }
	:: atomic { s_word[1] -> word[1] = 0; s_word[1] = 0 }
	od
}

#define DIE :: atomic { deaths < HOW(DEATHS) -> deaths++; died = 1; goto dying }

/* Compare and swap from 0; what the same thread has stored there comes before it. */
inline claim(b)
{
	if
	:: m & BIT(b) -> atomic {
		if :: s_clear[t] & BIT(b) -> flight[b] = 0; s_clear[t] = s_clear[t] & ~BIT(b) :: else fi;
		if
		:: flight[b] == 0 -> flight[b] = t + 1; got = got | BIT(b)
		:: else ->
			REACHED(taken)
			if :: flight[b] == t + 1 -> REACHED(stale_word) :: else fi;
			goto clear
		fi }
	:: !(m & BIT(b))
	DIE
	fi
}

/* The words once more, after the fence. */
inline look_mode()
{
	atomic { if :: mode || MUT(MODE_NOT) :: else -> goto retract fi }
}
inline look_again(b)
{
	if
	:: m & BIT(b) -> atomic { if :: word[b] != WORD(c, b) -> goto retract :: else fi }
	:: (d & BIT(b)) && MUT(READ_WORD_FIRST) ->
		atomic { if :: word[b] != 1 -> goto retract_read :: else fi };
		atomic { if :: flight[b] != 0 -> goto retract_read :: else fi }
	:: (d & BIT(b)) && !MUT(READ_WORD_FIRST) ->
		atomic { if :: flight[b] != 0 && !MUT(READ_ONCE) -> goto retract_read :: else fi };
		atomic { if :: word[b] != 1 -> goto retract_read :: else fi }
	:: !((m | d) & BIT(b))
	fi
}

#define HELD(e, m) ((!((m) & 1) || flight[0] == (e) + 1) && (!((m) & 2) || flight[1] == (e) + 1))
#define IS_ENTERED \
	reads[t] = d; \
	MUST(read_clean, (d & ~readable[t]) == 0); \
	MUST(one_before_the_other, !(open[1 - t] & d) || !(m & reads[1 - t])); \
	MUST(alone, !(open[1 - t] & m)); \
	MUST(held, HELD(t, m)); \
	if :: d -> REACHED(read_entered) :: else fi; \
	publishing = publishing & ~BIT(t)
/* An exit has found ENTERED and made it FREE. */
#define LEFT(e, m) \
	MUST(held, HELD(e, m) || MUT(CLEAR_FIRST)); \
	MUST(never_revoked, STATE(state[e]) != REVOKED); \
	state[e] = WITH(state[e], FREE); \
	if :: (m) & 1 -> written[0] = 1 :: else fi; \
	if :: (m) & 2 -> written[1] = 1 :: else fi; \
	open[e] = 0; \
	NOTE

proctype Thread(byte t)
{
	byte m, d, c, got, n;	/* writes, reads, claims, in-flight words that are its own */
	bit failed;

begin:	do
	:: n < (t == 0 -> HOW(R0) : HOW(R1)) ->
		atomic {
			n++;
			if
			:: STATE(state[t]) != FREE && !s_free[t] && !MUT(USE_NOT_FREE) ->
				REACHED(entry_busy)
				goto begin
			:: else
			fi;
			c = (t == 0 -> HOW(W0) : HOW(W1));
			if :: c & 2 -> m = 1 :: c & 4 -> m = 2 :: c & 8 -> m = 3 fi;
			c = (t == 0 -> HOW(D0) : HOW(D1));
			if
			:: c & 1
			:: (c & 2) && !(m & 1) -> d = 1
			:: (c & 4) && !(m & 2) -> d = 2
			:: else
			fi;
			/* of the first generation, or of what is in its place now */
			c = m | 4 | 16;
			if :: gen[0] == 2 -> c = c + 4 :: true fi
		};
		if
		:: MUT(SWEEP) ->
			atomic { if :: flight[0] == t + 1 -> flight[0] = 0 :: else fi };
			atomic { if :: flight[1] == t + 1 -> flight[1] = 0 :: else fi }
		:: MUT(READ_ONCE) ->
			atomic { if :: (d & 1) && flight[0] -> goto clear :: else fi };
			atomic { if :: (d & 2) && flight[1] -> goto clear :: else fi }
		:: else
		fi;
		if
		:: atomic { s_claims[t] = c }
		DIE
		fi;
		claim(0);
		claim(1);
		if
		:: atomic { FENCE(t) && !MUT(ENTER_NO_FENCE) && !MUT(ENTER_NO_RELEASE) ->
			state[t] = NEXT(t);
			publishing = publishing | BIT(t); readable[t] = 0; reads[t] = 0;
			NOTE }
		:: MUT(ENTER_NO_FENCE) || MUT(ENTER_NO_RELEASE) -> atomic {
			s_entered[t] = 1;
			publishing = publishing | BIT(t); readable[t] = 0; reads[t] = 0;
			NOTE };
			FENCE(t) || MUT(ENTER_NO_FENCE)
		DIE
		fi;
		if :: MUT(STATE_FIRST) && STATE(state[t]) == REVOKED -> goto retract :: else fi;
		if :: !MUT(MODE_LAST) -> look_mode() :: else fi;
		look_again(0);
		look_again(1);
		if :: MUT(MODE_LAST) -> look_mode() :: else fi;
		if
		:: atomic { STATE(state[t]) == ENTERED || s_entered[t] || MUT(STATE_FIRST) || MUT(STATE_NOT) ->
			REACHED(entered)
			MUST(entered_up, !down);
			MUST(entered_clean, !(m & 1) || (gen[0] == WORD(c, 0) && !bad[0]));
			MUST(entered_clean, !(m & 2) || (gen[1] == WORD(c, 1) && !bad[1]));
			open[t] = m;
			IS_ENTERED }
		:: atomic { STATE(state[t]) == MIGRATED && !MUT(STATE_FIRST) && !MUT(STATE_NOT) ->
			REACHED(entered_migrated)
migrated:		MUST(took_its_claims, covers[t] == m);
			IS_ENTERED }
		:: atomic { STATE(state[t]) == REVOKED && !MUT(STATE_FIRST) && !MUT(STATE_NOT) ->
			goto revoked }
		DIE
		fi;

		if
		:: true				/* it is left well */
		:: failed = 1			/* or badly */
		:: atomic { leaves < HOW(LEAVES) ->	/* or by another thread */
			leaves++; to_leave[t] = WITH(state[t], ENTERED); got = 0; goto clear }
		DIE
		fi;
		if
		:: failed -> request!EXIT_FAILED(t, t); reply?eval(t); REACHED(left_failed) goto clear
		:: !failed && MUT(CLEAR_FIRST) -> s_clear[t] = got; got = 0; FENCE(t)
		:: !failed && !MUT(STAMP_LATE) -> s_dirty[t] = m
		:: else
		fi;
		s_dirty[t] == 0 || MUT(STAMP_NO_RELEASE);
		if
		:: atomic { STATE(state[t]) == ENTERED || MUT(EXIT_BLIND) -> REACHED(left) LEFT(t, m) };
			if :: MUT(STAMP_LATE) -> s_dirty[t] = m :: else fi
		:: atomic { STATE(state[t]) != ENTERED && !MUT(EXIT_BLIND) ->
			MUST(never_revoked, STATE(state[t]) == MIGRATED && covers[t] == m);
			request!EXIT(t, t) };
			reply?eval(t); REACHED(left_migrated)
		DIE
		fi;
		goto clear;

retract_read:	if
		:: atomic { MUT(READ_MIGRATED) && STATE(state[t]) == MIGRATED -> goto migrated }
		:: else -> REACHED(retracted_read)
		fi;
retract:	if
		:: atomic { STATE(state[t]) == ENTERED && !s_entered[t] ->
			REACHED(retracted)
			state[t] = WITH(state[t], FREE); publishing = publishing & ~BIT(t) }
		:: atomic { STATE(state[t]) == MIGRATED ->
			/* it will not run, but counts as one that has: it leaves well */
			REACHED(retracted_migrated)
			MUST(took_its_claims, covers[t] == m);
			publishing = publishing & ~BIT(t);
			request!EXIT(t, t) };
			reply?eval(t)
		:: atomic { STATE(state[t]) == REVOKED ->
			REACHED(retracted_revoked)
revoked:		MUST(never_revoked, open[t] == 0);
			publishing = publishing & ~BIT(t);
			s_free[t] = 1 }
		DIE
		fi;

clear:		if
		:: atomic { !MUT(TAKEN_KEEPS) && !MUT(TAKEN_CLEARS_ALL) -> s_clear[t] = s_clear[t] | got }
		:: MUT(TAKEN_KEEPS)
		:: MUT(TAKEN_CLEARS_ALL) -> s_clear[t] = s_clear[t] | m
		DIE
		fi;
		atomic { m = 0; d = 0; c = 0; got = 0; failed = 0 }
	:: else -> break
	od;
	atomic { FENCE(t) -> done[t] = 1; goto out };

	/* The next thread gets the entry, and may use it if it is FREE. */
dying:	atomic { FENCE(t) ->
		m = 0; d = 0; c = 0; got = 0; failed = 0; publishing = publishing & ~BIT(t);
		if :: STATE(state[t]) == FREE -> REACHED(entry_inherited) :: else fi;
		goto begin };
out:	skip
}

/* It leaves what others have entered. An id is the word of the state that was published. */
proctype Leaver()
{
	byte e, m, id;

end:	do
	:: atomic { to_leave[0] || to_leave[1] ->
		leaving = 1;
		if :: to_leave[0] -> e = 0 :: to_leave[1] -> e = 1 fi;
		id = to_leave[e]; to_leave[e] = 0 };
		atomic { m = claims[e] & 3 };
		if
		:: atomic { s_dirty[2] = m };
			s_dirty[2] == 0;
			if
			:: atomic { state[e] == id ->
				REACHED(left_by_other)
				MUST(took_its_claims, open[e] == m);
				LEFT(e, m) };
				if :: MUT(CLEAR_LATE_COPY) -> m = claims[e] & 3 :: else fi
			:: atomic { state[e] != id ->
				MUST(never_revoked, state[e] == WITH(id, MIGRATED) && covers[e] == m);
				request!EXIT(e, 2) };
				reply?2; REACHED(left_by_other_migrated)
			fi
		:: request!EXIT_FAILED(e, 2); reply?2; REACHED(left_by_other_failed)
		fi;
		atomic { s_clear[2] = m; m = 0; e = 0; id = 0 };
		atomic { s_clear[2] == 0 -> leaving = 0 }
	od
}

/* If a check does not ask, the buffer was clean at some time while it went on. */
inline check_mode(when)
{
	if
	:: HOW(ORDER) == when -> atomic { if :: !mode -> goto asks :: else fi }
	:: else
	fi
}
inline check_flight()
{
	atomic { if :: flight[c_b] != 0 -> goto asks :: else fi }
}
inline check_word()
{
	atomic { if :: word[c_b] != c_word -> goto asks :: else fi }
}

proctype Checker()
{
	byte n;

	do
	:: n < HOW(CHECKS) ->
		atomic {
			n++;
			if :: c_b = 0 :: c_b = 1 fi;
			if :: c_word = 1 :: gen[c_b] == 2 -> c_word = 2 fi;
			checking = 1;
			c_clean = 0;
			c_up = !down;
			NOTE };
		check_mode(0);
		if
		:: MUT(CHECK_WORD_FIRST) -> check_word(); check_flight()
		:: else -> check_flight(); check_mode(1); check_word()
		fi;
		check_mode(2);
		atomic {
			REACHED(check_clean)
			MUST(check_clean, c_clean);
			MUST(check_up, c_up);
			goto checked };
asks:		REACHED(check_asks)
checked:	atomic { checking = 0; c_clean = 0; c_up = 0; c_b = 0; c_word = 0 }
	:: else -> break
	od
}

/*
 * The entry e had state s, with claims c, when it was looked at, which is after the words
 * of what changes became 0: o0, o1 and om are the words and the mode until then.
 */
#define CURRENT ((!(c & 1) || o0 == WORD(c, 0)) && (!(c & 2) || o1 == WORD(c, 1)) && \
	(om || MUT(MODE_MIGRATES)))
inline exchange()
{
	if
	:: state[e] == s && (CURRENT || MUT(MIGRATE_ALL)) && !MUT(REVOKE_ALL) ->
		if :: kmode -> REACHED(migrated_by_word) :: else -> REACHED(migrated_by_mode) fi;
		state[e] = WITH(s, MIGRATED);
		MUST(took_its_claims, open[e] == 0 || open[e] == (c & 3));
		MUST(migrated_clean, !(c & 1) || !bad[0]);
		MUST(migrated_clean, !(c & 2) || !bad[1]);
		MUST(migrated_clean, !(c & 3 & covers[1 - e]));
		MUST(migrated_up, !down);
		covers[e] = c & 3;
		open[e] = c & 3;
		again = 0
	:: state[e] == s && !((CURRENT || MUT(MIGRATE_ALL)) && !MUT(REVOKE_ALL)) ->
		if :: kmode -> REACHED(revoked_by_word) :: else -> REACHED(revoked_by_mode) fi;
		state[e] = WITH(s, REVOKED);
		MUST(never_revoked, open[e] == 0);
		again = 0
	:: state[e] != s ->
		REACHED(exchange_failed)
		again = MUT(LOOK_AGAIN)
	fi;
	s = 0; c = 0
}

/* Of a buffer whose word became 0, the one entry that it is in flight with. */
inline look(b)
{
	again = (B & BIT(b)) != 0;
	do
	:: !again -> break
	:: atomic { again && flight[b] == 0 -> again = 0 }
	:: atomic { again && flight[b] != 0 -> e = flight[b] - 1 };
		if :: MUT(CLAIMS_FIRST) -> c = claims[e] :: else fi;
		atomic { s = state[e]; if :: STATE(s) != ENTERED -> again = 0; s = 0; c = 0 :: else fi };
		if
		:: again && !MUT(CLAIMS_FIRST) -> c = claims[e]
		:: else
		fi;
		atomic {
			if
			:: again && !(c & BIT(b)) && !MUT(CLAIMS_UNSEEN) -> REACHED(other_claims) again = 0; s = 0; c = 0
			:: again && ((c & BIT(b)) || MUT(CLAIMS_UNSEEN)) -> exchange()
			:: else
			fi;
			e = 0 }
	od
}

#define KNOWN(B) ((!(open[0] & (B)) || covers[0] == open[0]) && (!(open[1] & (B)) || covers[1] == open[1]))

/* Before the buffers B change. */
inline transition()
{
	atomic {
		o0 = kword[0]; o1 = kword[1]; om = kmode;
		if
		:: MUT(KERNEL_NO_BARRIER) ->
			if :: (B & 1) && kword[0] -> s_word[0] = 1 :: else fi;
			if :: (B & 2) && kword[1] -> s_word[1] = 1 :: else fi
		:: else ->
			if :: B & 1 -> word[0] = 0 :: else fi
		fi;
		if :: B & 1 -> kword[0] = 0 :: else fi };
	atomic {
		if :: (B & 2) && !MUT(KERNEL_NO_BARRIER) -> word[1] = 0 :: else fi;
		if :: B & 2 -> kword[1] = 0 :: else fi };
	look(0);
	look(1);
	atomic { o0 = 0; o1 = 0; om = 0; MUST(known, KNOWN(B)) }
}

/* Before the session changes: every entry that is in use. */
inline transition_all()
{
	atomic { o0 = kword[0]; o1 = kword[1]; om = kmode; kmode = 0; mode = 0; e = 0 };
	do
	:: e < 2 && !MUT(MODE_NO_SCAN) ->
		atomic { s = state[e]; again = 0 };
		if
		:: STATE(s) == ENTERED -> c = claims[e]; atomic { exchange() }
		:: else
		fi;
		atomic { s = 0; if :: again :: else -> e++ fi }
	:: else -> break
	od;
	atomic { again = 0; e = 0; o0 = 0; o1 = 0; om = 0; MUST(known, KNOWN(3)) }
}

#define MAY_PUBLISH(b) \
	(kword[b] == 0 && (!((covers[0] | covers[1]) & BIT(b)) || MUT(PUBLISH_COVERED)))

proctype Kernel()
{
	byte e, s, c, o0, o1, t, by, k, B;
	bit om, again;
	mtype op;

	do
	:: atomic { !ended && done[0] && done[1] && !to_leave[0] && !to_leave[1] && !leaving ->
		MUST(nothing_left, died || (flight[0] == 0 && flight[1] == 0 && open[0] == 0 && open[1] == 0 &&
			STATE(state[0]) == FREE && STATE(state[1]) == FREE && covers[0] == 0 && covers[1] == 0));
		/* of what nobody will leave any more, checks ask */
		MUST(torn_asks, !((open[0] | open[1]) & 1) || flight[0] != 0 || word[0] == 0);
		MUST(torn_asks, !((open[0] | open[1]) & 2) || flight[1] != 0 || word[1] == 0);
		ended = 1 };
		/* and the client's end finds it */
		transition_all();
		atomic {
			if :: open[0] || open[1] -> REACHED(torn) :: else fi;
			goto out }
	:: atomic { !ended && k < HOW(K) ->
		k++;
		if
		:: !bad[0] -> op = CHANGE; B = 1
		:: !bad[1] -> op = CHANGE; B = 2
		:: bad[0] && MAY_PUBLISH(0) -> op = RESET; B = 1
		:: bad[1] && MAY_PUBLISH(1) -> op = RESET; B = 2
		:: HOW(REUSE) && bad[0] && gen[0] == 1 && MAY_PUBLISH(0) -> op = USE_AGAIN
		:: HOW(ALL) && !down -> op = DOWN
		:: HOW(FAULT) && !down && !bad[0] && !bad[1] -> op = DOWN_FAULT
		:: down -> op = UP
		:: else -> op = NOTHING
		fi };
		if
		:: op == CHANGE ->
			if :: MUT(CHANGE_FIRST) -> bad[B - 1] = 1 :: else fi;
			transition();
			atomic {
				MUST(stamped, !written[B - 1] || dirty[B - 1]);
				bad[B - 1] = 1 };
			!s_word[0] && !s_word[1]
		:: op == RESET -> atomic {
			/* clean, then the word, which the next barrier is after: one step */
			REACHED(reset)
			bad[B - 1] = 0;
			kword[B - 1] = gen[B - 1];
			word[B - 1] = kword[B - 1];
			NOTE }
		:: op == USE_AGAIN -> atomic {
			REACHED(index_reused)
			bad[0] = 0; gen[0] = 2; dirty[0] = 0; written[0] = 0;
			kword[0] = (MUT(SAME_WORD) -> 1 : 2);
			word[0] = kword[0];
			NOTE }
		:: op == DOWN -> transition_all(); down = 1
		:: op == DOWN_FAULT ->
			transition_all();
			atomic {
				MUST(stamped, (!written[0] || dirty[0]) && (!written[1] || dirty[1]));
				down = 1; bad[0] = 1; bad[1] = 1 };
			if
			:: !MUT(WORDS_LATE) ->
				atomic { kword[0] = 0; word[0] = 0 };
				atomic { kword[1] = 0; word[1] = 0 }
			:: else
			fi
		:: op == UP -> atomic {
			REACHED(mode_back)
			down = 0; kmode = 1; mode = 1;
			if :: checking -> c_up = 1 :: else fi };
			if :: MUT(WORDS_LATE) && bad[0] -> kword[0] = 0; word[0] = 0 :: else fi;
			if :: MUT(WORDS_LATE) && bad[1] -> kword[1] = 0; word[1] = 0 :: else fi
		:: op == NOTHING
		fi;
		atomic { op = 0; B = 0 }
	:: atomic { request?EXIT_FAILED(t, by) ->
		/* it names the scope: whatever became of that, it has been entered */
		MUST(exit_known, open[t] != 0);
		B = (STATE(state[t]) == MIGRATED -> covers[t] : claims[t] & 3) };
		transition();
		atomic {
			MUST(exit_known, covers[t] == B && open[t] == B && STATE(state[t]) == MIGRATED);
			if :: B & 1 -> bad[0] = 1 :: else fi;
			if :: B & 2 -> bad[1] = 1 :: else fi;
			covers[t] = 0; open[t] = 0; state[t] = WITH(state[t], FREE); B = 0 };
		atomic { !s_word[0] && !s_word[1] -> reply!by; t = 0; by = 0 }
	:: atomic { request?EXIT(t, by) ->
		MUST(exit_known, covers[t] != 0 && covers[t] == open[t]);
		covers[t] = 0; open[t] = 0; state[t] = WITH(state[t], FREE);
		NOTE };
		atomic { reply!by; t = 0; by = 0 }
	od;
out:	skip
}

init
{
	atomic {
		c_code { configure(); };
		run Memory();
		run Thread(0);
		run Thread(1);
		if :: HOW(LEAVES) -> run Leaver() :: else fi;
		if :: HOW(CHECKS) -> run Checker() :: else fi;
		run Kernel()
	}
}

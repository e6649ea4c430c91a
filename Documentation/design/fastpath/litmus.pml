/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which of the fast path's loads and stores must be ordered, for Spin; ../fastpath.rst has
 * the results, selftests/checks/model.sh runs it.
 *
 * A thread is a set of events, each of which happens once, at once for everybody, and as
 * soon as those have happened that it must come after. So what is left unordered happens in
 * any order, as on arm64, whose memory is one for all. After a load that decides come the
 * stores that it decides on, but loads may come before it.
 *
 * The environment says what is tried (TEST) and which order is left out (WITHOUT).
 */

#define TESTS \
	T(enter)		/* a scope enters while its buffer changes */ \
	T(reads)		/* two enter, each of which reads what the other writes */ \
	T(leave)		/* a scope leaves while its buffer changes */ \
	T(check_left)		/* a check of what a scope wrote, which has left */ \
	T(check_failed)		/* or has been left badly, by the kernel */ \
	T(check_published)	/* or well by the kernel, which publishes the word again */ \
	T(revoked)		/* a check by a thread that has found its entry REVOKED */

#define ORDERS \
	O(enter_fence)		/* ENTERED, then the words once more */ \
	O(enter_publish)	/* claims, then ENTERED: release */ \
	O(enter_words)		/* the words, then the own state: acquire */ \
	O(look_barrier)		/* the word 0, then the look at the table */ \
	O(look_state)		/* an entry's state, then its claims: acquire */ \
	O(leave_stamps)		/* stamps, then FREE: release */ \
	O(leave_clear)		/* FREE, and what is before it, then the clears: release */ \
	O(look_flight)		/* an in-flight word, then the stamps: acquire */ \
	O(look_free)		/* a state that is not ENTERED, then the stamps: acquire */ \
	O(look_failed)		/* so if it is the exchange that finds this: acquire if it fails */ \
	O(publish)		/* a buffer is clean, then its word: release */ \
	O(check_flight)		/* an in-flight word, then what was written before: acquire */ \
	O(check_word)		/* a word, then what was written before: acquire */ \
	O(retract_failed)	/* an exchange that finds REVOKED, then a check: acquire if it fails */

c_decl {
\#include <stdio.h>
\#include <stdlib.h>
\#include <string.h>

#define T(name) T_##name,
enum { T_NONE, TESTS T_END };
#undef T
#define T(name) #name,
#define O(name) O_##name,
enum { O_NONE, ORDERS O_END };
#undef O
#define O(name) #name,
static const char *const tests[] = { "", TESTS };
static const char *const orders[] = { "", ORDERS };
static int test, without;

static int chosen(const char *name, const char *const *names, int end)
{
	const char *value = getenv(name);
	int i;

	for (i = 0; i < end; i++)
		if (!strcmp(value ? value : "", names[i]))
			return i;
	fprintf(stderr, "%s=%s is none\n", name, value);
	exit(2);
}

static void configure(void)
{
	test = chosen("TEST", tests, T_END);
	without = chosen("WITHOUT", orders, O_END);
}
}

#define BIT(i) (1 << (i))
/* The event i, after those of a set; it may demand what its load finds. */
#define EVENT(i, after, what) \
	:: atomic { !(did & BIT(i)) && (did & (after)) == (after) -> what; did = did | BIT(i) }
#define ORDER(name, set) (c_expr { without == O_##name } -> 0 : (set))
/* If what was demanded is never found, that is no outcome. */
#define OUTCOME(n) :: atomic { did == BIT(n) - 1 -> finished++ }; break

#define FREE 0
#define ENTERED 1
#define MIGRATED 2
#define REVOKED 3
byte word, flight, state, claims, dirty, data;
byte word_2, flight_2;	/* of another buffer */
bit locked;		/* an exchange has loaded the state, and will store */
byte finished;
byte found_word, found_word_2, found_state, found_claims, found_dirty, found_data, found_flight[2];

/* Test enter: claims were 1, an older scope's, which had the buffer, too. */
proctype Enter()
{
	byte did;

	do
	EVENT(0, 0, flight = 1)
	EVENT(1, 0, claims = 2)
	EVENT(2, ORDER(enter_publish, 3), state = ENTERED)
	EVENT(3, ORDER(enter_fence, 7), found_word = word)
	EVENT(4, ORDER(enter_fence, 7), found_word_2 = word_2)
	EVENT(5, BIT(2) | ORDER(enter_words, BIT(3) | BIT(4)), found_state = state)
	OUTCOME(6)
	od
}

/* The scope's other buffer is as it expects, or is not, but becomes so when it is REVOKED. */
proctype Look_enter(bit current)
{
	byte did;

	if
	:: do	/* it is in flight, and ENTERED */
	   EVENT(0, 0, word = 0)
	   EVENT(1, ORDER(look_barrier, 1), flight == 1)
	   EVENT(2, BIT(1), state == ENTERED)
	   EVENT(3, BIT(1) | ORDER(look_state, BIT(2)), found_claims = claims)
	   EVENT(4, 15, state == ENTERED; state = (current -> MIGRATED : REVOKED))
	   EVENT(5, 31, word_2 = 1)
	   OUTCOME(6)
	   od
	:: do	/* in flight, but not ENTERED */
	   EVENT(0, 0, word = 0)
	   EVENT(1, ORDER(look_barrier, 1), flight == 1)
	   EVENT(2, BIT(1), state != ENTERED)
	   OUTCOME(3)
	   od
	:: do	/* not in flight */
	   EVENT(0, 0, word = 0)
	   EVENT(1, ORDER(look_barrier, 1), flight == 0)
	   OUTCOME(2)
	   od
	fi
}

/* Test reads. */
proctype Enter_reading(byte other)
{
	byte did;

	do
	EVENT(0, 0, if :: other -> flight = 1 :: else -> flight_2 = 1 fi)
	EVENT(1, ORDER(enter_fence, 1), found_flight[other] = (other -> flight_2 : flight))
	OUTCOME(2)
	od
}

/* Tests leave and check_left: an exchange is a load and, if that finds ENTERED, a store. */
proctype Leave()
{
	byte did;
	bit won;

	do
	EVENT(0, 0, dirty = 1; data = 1)
	EVENT(1, 0, won = (state == ENTERED); locked = won)
	EVENT(2, BIT(1) | ORDER(leave_stamps, 1), if :: won -> state = FREE; locked = 0 :: else fi)
	EVENT(3, BIT(1) | ORDER(leave_clear, 7), if :: won -> flight = 0 :: else fi)
	OUTCOME(4)
	od
}

proctype Look_leave()
{
	byte did;

	word = 0;
	if
	:: do	/* not in flight */
	   EVENT(0, 0, flight == 0)
	   EVENT(1, ORDER(look_flight, 1), found_dirty = dirty)
	   OUTCOME(2)
	   od
	:: do	/* in flight, but not ENTERED */
	   EVENT(0, 0, flight == 1)
	   EVENT(1, 1, state != ENTERED)
	   EVENT(2, ORDER(look_flight, 1) | ORDER(look_free, 2), found_dirty = dirty)
	   OUTCOME(3)
	   od
	:: do	/* ENTERED, but not any more */
	   EVENT(0, 0, flight == 1)
	   EVENT(1, 1, state == ENTERED)
	   EVENT(2, 3, !locked && state != ENTERED)
	   EVENT(3, ORDER(look_flight, 1) | ORDER(look_free, 2) | ORDER(look_failed, 4), found_dirty = dirty)
	   OUTCOME(4)
	   od
	:: do	/* ENTERED: it is migrated, and stamps by the kernel */
	   EVENT(0, 0, flight == 1)
	   EVENT(1, 1, state == ENTERED)
	   EVENT(2, 3, !locked && state == ENTERED; state = MIGRATED; found_dirty = 1)
	   OUTCOME(3)
	   od
	fi
}

/* Tests check_...: a check that does not ask, and who reads then. */
proctype Check()
{
	byte did;

	do
	EVENT(0, 0, flight == 0)
	EVENT(1, ORDER(check_flight, 1), word == 1)
	EVENT(2, ORDER(check_flight, 1) | ORDER(check_word, 2), found_data = data)
	OUTCOME(3)
	od
}

proctype Publish()
{
	byte did;

	do
	EVENT(0, 0, data = 1)
	EVENT(1, ORDER(publish, 1), word = 1)
	OUTCOME(2)
	od
}

/* The word is 0 before the kernel lets the scope go, and that before its thread clears. */
proctype Fail()
{
	word = 0;
	flight = 0;
	finished++
}

/* Test revoked. */
proctype Revoke()
{
	word = 0;
	state = REVOKED;
	finished++
}

proctype Check_revoked()
{
	byte did;

	do
	EVENT(0, 0, state == REVOKED)
	EVENT(1, 1, flight = 0)
	EVENT(2, ORDER(retract_failed, 1), found_word = word)
	OUTCOME(3)
	od
}

#define TEST(name) :: c_expr { test == T_##name } -> atomic
init
{
	atomic { c_code { configure(); } };
	if
	TEST(enter) { word = 1; claims = 1; run Enter();
		if :: word_2 = 1 :: word_2 = 0 fi; run Look_enter(word_2) };
		finished == 2;
		/* who entered has been migrated, with its own claims */
		assert(!(found_word == 1 && found_word_2 == 1 && found_state == ENTERED) || state == MIGRATED);
		assert(state != MIGRATED || found_claims == 2)
	TEST(reads) { run Enter_reading(0); run Enter_reading(1) };
		finished == 2;
		assert(found_flight[0] || found_flight[1])
	TEST(leave) { flight = 1; state = ENTERED; run Leave(); run Look_leave() };
		finished == 2;
		assert(found_dirty)
	TEST(check_left) { flight = 1; state = ENTERED; word = 1; run Leave(); run Check() };
		finished == 2;
		assert(found_data)
	TEST(check_failed) { flight = 1; word = 1; run Fail(); run Check() };
		finished == 2;
		assert(false)
	TEST(check_published) { run Publish(); run Check() };
		finished == 2;
		assert(found_data)
	TEST(revoked) { flight = 1; state = ENTERED; word = 1; run Revoke(); run Check_revoked() };
		finished == 2;
		assert(found_word == 0)
	fi
}

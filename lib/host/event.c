// SPDX-License-Identifier: MIT
/* Events between streams, and profiles. */
#include "host.h"

int capkm_host_event_record(struct capkm_host *host, uint64_t stream,
			    struct capkm_host_event *event,
			    struct capkm_error *err)
{
	struct slot *slot;
	int rc = capkm_host_enter(host, "host_event_record", err);

	if (rc)
		return rc;
	rc = capkm_host_slot(host, "host_event_record", &stream, &slot, err);
	if (!rc) {
		const struct recording *rec = capkm_slot_records(slot);

		*event = (struct capkm_host_event){
			.host = host->memories.tag,
			.window = rec ? rec->window : 0,
			.position = slot->issued,
			.slot = slot->index,
		};
	}
	capkm_host_leave(host);
	return rc;
}

static int check_event(const struct capkm_host *host,
		       const struct capkm_host_event *event, const char *call,
		       struct capkm_error *err)
{
	const struct slot *slot = event->slot < host->slots_len ?
				  host->slots[event->slot] : NULL;

	if (event->host && event->host != host->memories.tag)
		return capkm_error_set(err, -EXDEV, CAPKM_NO_INDEX, 0,
			"%s: the event is another executor's", call);
	if (!event->host || !slot || event->position > slot->issued)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: that is no event; host_event_record makes one",
			call);
	return 0;
}

/* The recording that the event is a part of, if it still goes on. */
static struct recording *recording_of(struct capkm_host *host,
				      const struct capkm_host_event *event)
{
	struct recording *rec = host->slots[event->slot]->recording;

	return event->window && rec && rec->window == event->window ? rec :
								      NULL;
}

static int isolated(struct capkm_error *err)
{
	return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
		"host_event_wait: a slot that records cannot wait for an event from outside of its window");
}

static int wait_for(struct slot *slot, uint64_t stream,
		    const struct capkm_host_event *event,
		    struct capkm_error *err)
{
	struct capkm_host *host = slot->host;
	struct task *task = capkm_task_new(host, stream);
	int rc;

	if (!task)
		return capkm_no_memory("host_event_wait", err);
	do {
		rc = capkm_slot_room(slot);
	} while (rc > 0);
	if (!rc && capkm_slot_records(slot))
		rc = isolated(err);
	else if (rc)
		capkm_host_no_thread(rc, "host_event_wait", err);
	if (rc) {
		capkm_task_free(host, task);
		return rc;
	}
	task->waits[event->slot] = event->position;
	capkm_task_issue(slot, task, NULL, 0);
	return 0;
}

/* What was issued on the slot so far is not part of the window: it runs before. */
static int join(struct slot *slot, uint64_t stream,
		const struct capkm_host_event *event, struct capkm_error *err)
{
	struct recording *rec;
	int rc = capkm_slot_drain(slot);

	if (rc)
		return capkm_host_no_thread(rc, "host_event_wait", err);
	rec = recording_of(slot->host, event);
	return rec ? capkm_recording_join(slot, stream, rec, err) : 0;
}

int capkm_host_event_wait(struct capkm_host *host, uint64_t stream,
			  const struct capkm_host_event *event,
			  struct capkm_error *err)
{
	const char *call = "host_event_wait";
	struct slot *slot;
	int rc = capkm_host_enter(host, call, err);

	if (rc)
		return rc;
	rc = check_event(host, event, call, err);
	if (!rc)
		rc = capkm_host_slot(host, call, &stream, &slot, err);
	if (rc)
		goto out;
	if (recording_of(host, event)) {
		if (slot->recording != recording_of(host, event))
			rc = join(slot, stream, event, err);
	} else if (!event->window) {
		rc = capkm_slot_records(slot) ? isolated(err) :
						wait_for(slot, stream, event, err);
	}
out:
	capkm_host_leave(host);
	return rc;
}

int capkm_host_event_sync(struct capkm_host *host,
			  const struct capkm_host_event *event,
			  struct capkm_error *err)
{
	const char *call = "host_event_sync";
	int rc = capkm_host_enter(host, call, err);

	if (rc)
		return rc;
	rc = check_event(host, event, call, err);
	if (!rc && recording_of(host, event)) {
		rc = capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
			"%s: the event was recorded in a window that is still open; what it waits for does not run now",
			call);
	} else if (!rc) {
		rc = capkm_slot_wait(host, (struct mark){ event->slot,
							  event->position });
		if (rc)
			capkm_host_no_thread(rc, call, err);
	}
	capkm_host_leave(host);
	return rc;
}

/* The slot is idle, or records: then the measurement is worth nothing. */
static int quiesce(struct slot *slot, uint64_t stream,
		   struct capkm_host_profile *p, const char *call,
		   struct capkm_error *err)
{
	int rc = capkm_host_refuse(slot, stream, CAPKM_REFUSE_PROFILE, call,
				   NULL);

	if (rc == -EBUSY) {
		p->timed = 0;
		return 0;
	}
	if (!rc)
		rc = capkm_slot_drain(slot);
	return rc ? capkm_host_no_thread(rc, call, err) : 0;
}

static uint64_t gone_wrong(const struct slot *slot)
{
	return slot->failed + slot->skipped;
}

int capkm_host_profile_begin(struct capkm_host *host, uint64_t stream,
			     struct capkm_host_profile *profile,
			     struct capkm_error *err)
{
	const char *call = "host_profile_begin";
	struct capkm_host_profile p = { .timed = 1 };
	struct slot *slot;
	int rc = capkm_host_enter(host, call, err);

	if (rc)
		return rc;
	rc = capkm_host_slot(host, call, &stream, &slot, err);
	if (!rc)
		rc = quiesce(slot, stream, &p, call, err);
	if (!rc) {
		p.slot = slot->index;
		p.before = gone_wrong(slot);
		p.start_ns = capkm_now_ns();
		*profile = p;
	}
	capkm_host_leave(host);
	return rc;
}

int capkm_host_profile_end(struct capkm_host *host, uint64_t stream,
			   struct capkm_host_profile *profile,
			   struct capkm_error *err)
{
	const char *call = "host_profile_end";
	struct slot *slot;
	int rc = capkm_host_enter(host, call, err);

	if (rc)
		return rc;
	rc = capkm_host_slot(host, call, &stream, &slot, err);
	if (!rc && (!profile->start_ns || profile->slot != slot->index))
		rc = capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: the measurement was not begun, or on another slot",
			call);
	if (!rc)
		rc = quiesce(slot, stream, profile, call, err);
	if (!rc) {
		profile->ns = profile->timed ?
			      capkm_now_ns() - profile->start_ns : 0;
		profile->failures = gone_wrong(slot) - profile->before;
	}
	capkm_host_leave(host);
	return rc;
}

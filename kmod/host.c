// SPDX-License-Identifier: GPL-2.0-only
/* The kernel as the engine's host: memory, time, and who calls. */
#include <linux/bug.h>
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/nsproxy.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>
#include <net/net_namespace.h>

#include <linux/capkm.h>

#include "capkm.h"
#include "engine/host.h"

/*
 * What is kept here is not counted for a process when the kernel looks for one to kill,
 * so it would kill others for who hoards. A caller can be told that there is no memory;
 * kvzalloc() would not tell him where it falls back to vmalloc().
 */
void *host_alloc(size_t bytes)
{
	const gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_ZERO;
	void *p;

	if (bytes <= PAGE_SIZE)
		return kmalloc(bytes, gfp | __GFP_RETRY_MAYFAIL);
	p = kmalloc(bytes, gfp | __GFP_NORETRY);
	return p ? p : __vmalloc(bytes, gfp | __GFP_RETRY_MAYFAIL);
}

void host_free(void *p)
{
	kvfree(p);
}

u64 host_time_ns(void)
{
	return ktime_get_real_ns();
}

u64 host_features(void)
{
	return CAPKM_FEATURE_AUTHORITY;
}

u64 host_uptime_ns(void)
{
	return ktime_get_boottime_ns();
}

unsigned long host_moment(void)
{
	return jiffies;
}

bool host_killed(void)
{
	return fatal_signal_pending(current);
}

int host_wait(struct host_waitq *q, struct host_mutex *m, u64 *timeout_ns)
{
	const bool forever = *timeout_ns == U64_MAX;
	ktime_t left, start = ktime_get();
	DEFINE_WAIT(wait);
	int err = 0;

	prepare_to_wait(&q->head, &wait, TASK_INTERRUPTIBLE);
	host_unlock(m);
	if (signal_pending(current)) {
		err = -EINTR;
	} else {
		left = min_t(u64, *timeout_ns, KTIME_MAX);
		if (!schedule_hrtimeout(forever ? NULL : &left,
					HRTIMER_MODE_REL))
			err = -ETIMEDOUT;
		else if (signal_pending(current))
			err = -EINTR;
	}
	finish_wait(&q->head, &wait);
	host_lock(m);
	if (!forever)
		*timeout_ns -= min_t(u64, *timeout_ns,
				     ktime_to_ns(ktime_sub(ktime_get(), start)));
	return err;
}

bool host_check_at(bool ok, const char *what, const char *where)
{
	WARN_ONCE(!ok, "capkm: not so in %s: %s\n", where, what);
	return ok;
}

/* A struct host_proc is a struct pid, of a thread group. */
static struct pid *to_pid(const struct host_proc *proc)
{
	return (struct pid *)proc;
}

struct host_proc *host_proc_get(struct host_proc *proc)
{
	return (struct host_proc *)get_pid(to_pid(proc));
}

void host_proc_put(struct host_proc *proc)
{
	put_pid(to_pid(proc));
}

u32 host_proc_pid(const struct host_proc *proc)
{
	/* NULL: the reader itself is past the end of its life. */
	struct pid_namespace *ns = task_active_pid_ns(current);

	return ns ? pid_nr_ns(to_pid(proc), ns) : 0;
}

u32 capkm_proc_global(const struct host_proc *proc)
{
	return pid_nr(to_pid(proc));
}

u32 host_uid_view(u32 uid)
{
	return from_kuid_munged(current_user_ns(),
				make_kuid(&init_user_ns, uid));
}

u32 host_gid_view(u32 gid)
{
	return from_kgid_munged(current_user_ns(),
				make_kgid(&init_user_ns, gid));
}

bool host_uid_parse(u32 seen, u32 *uid)
{
	kuid_t kuid = make_kuid(current_user_ns(), seen);

	if (!uid_valid(kuid))
		return false;
	*uid = from_kuid(&init_user_ns, kuid);
	return true;
}

bool host_in_group(u32 gid)
{
	return in_egroup_p(make_kgid(&init_user_ns, gid));
}

void capkm_caller_init(struct capkm_caller *who)
{
	who->proc = (struct host_proc *)task_tgid(current);
	who->image = current->mm;
	who->tid = task_pid_vnr(current);
	who->uid = from_kuid(&init_user_ns, current_euid());
	who->gid = from_kgid(&init_user_ns, current_egid());
	/* NULL: past the end of its life, where it makes no domain. */
	who->net = current->nsproxy ? current->nsproxy->net_ns->net_cookie : 0;
	who->all_nets = true;
	/* Most callers need no privilege, so that they have none is no news. */
	who->admin = ns_capable_noaudit(&init_user_ns, CAP_SYS_ADMIN);
	/* Not locked: another thread may rename us, but the NUL stays. */
	strscpy_pad(who->comm, current->comm, sizeof(who->comm));
}

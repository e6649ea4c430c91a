// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/capkm: each open file description is a session of the engine.
 *
 * The end of a client
 * -------------------
 * A client is a process image: a thread group and its mm. The engine wants to
 * know when it is gone, however long the description lives on: in a child, in
 * another process that shares the file table, in a message or a ring under way.
 * Each client has a struct capkm_watch: the opener from open on, another one from
 * its SESSION_JOIN on. There are several who see the end; telling the engine
 * twice is harmless, and it is told which image it was, so that the client that
 * a new image of the same process has become is not ended by the old one's end.
 *
 *  - the mm: its notifier's ->release comes when its last user is gone. That is
 *    early in the exit of the last thread, and in an exec once there is no way
 *    back to the old program, also if no descriptor is close-on-exec. It comes
 *    late, or in another task, while somebody else uses the mm: a child of
 *    vfork(), a reader of /proc. It comes in a read section of an SRCU that all
 *    notifiers of the system share, so all it does is to queue the work.
 *  - flush: a descriptor is closed. If the process has no live thread any more,
 *    it has ended. If it has another mm than the client, the client has been
 *    replaced. And if its file table has no descriptor of the session any more,
 *    the client has left, although a child may keep the description. A process
 *    has one file table unless its threads have unshared theirs; then a close
 *    says nothing and its exit counts. So also does a thread that copies the
 *    table or a descriptor in the very moment in which the last one is closed:
 *    its copy comes too late; and close_range() that unshares the table leaves
 *    the descriptors out of the copy without closing them. If the closed
 *    descriptor was the description's last reference, flush leaves all to
 *    release, which is next.
 *  - the backstop, for a process that has no descriptor any more, whose file
 *    table outlives it, or whose mm somebody else uses: the kernel wakes
 *    pid->wait_pidfd when the leader has become a zombie and no other thread is
 *    left. The callback runs under tasklist_lock, so all it does is to queue the
 *    work that looks.
 *  - release: the description itself is gone.
 *
 * Locks, in this order; the engine's are inside all of them:
 *
 *	join_lock	one SESSION_JOIN, or first call of the opener, at a time,
 *			so that two threads of one process do not make two
 *			watches. It is held while user memory is touched, and is
 *			interruptible for that
 *	mmap_lock	of the new client, to register the notifier. Not in open:
 *			that runs under a lock of all misc devices, and who holds
 *			an mmap_lock may wait for user space
 *	watch_lock	the list of watches. Nothing waits under it but the engine
 *
 * A watch is freed by release, when nobody else has the description; by a join
 * that failed, before others rely on it; and by a later join when its image is
 * gone. In all cases it is first taken off the list, so that no flush finds it.
 * Then mmu_notifier_unregister() calls ->release if it has not been called, and
 * waits for it if it is running, and remove_wait_queue() waits for a callback that
 * is running; after these two nobody queues the work, and cancel_work_sync() waits
 * for it. All of that is over before the session is released, and says nothing
 * then: the session's release takes its clients along, to whom a session that is
 * gone matters less than one that lives on.
 */
#include <linux/capability.h>
#include <linux/err.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "capkm.h"
#include "compat.h"
#include "engine/engine.h"

struct capkm_file {
	struct capkm_session *session;	/* set by open */
	struct pid *opener;		/* set by open; a reference */
	bool released;			/* set by release: watches say no more */
	struct mutex join_lock;
	struct mutex read_lock;		/* one reader at a time */
	struct mutex watch_lock;
	bool mm_unwatched;		/* the opener's, until its first call */
	struct list_head watches;	/* of watch_lock */
};

/* One for each client. All but sib is set when it is made and then constant. */
struct capkm_watch {
	struct list_head sib;		/* in capkm_file.watches */
	struct capkm_file *file;
	struct pid *pid;		/* a thread group; a reference */
	struct mm_struct *mm;		/* pinned, so that no other gets its address */
	struct mmu_notifier notifier;	/* of mm */
	bool notifies;			/* it is registered; of join_lock */
	bool mm_over;			/* set by the notifier */
	struct wait_queue_entry wait;	/* on pid->wait_pidfd */
	struct work_struct gone_work;
};

static struct host_proc *to_proc(struct pid *pid)
{
	return (struct host_proc *)pid;
}

static bool is_gone(struct pid *pid)
{
	struct task_struct *task;
	bool gone;

	rcu_read_lock();
	task = pid_task(pid, PIDTYPE_TGID);
	/* Threads that are past the count never see user space again. */
	gone = !task || !atomic_read(&task->signal->live);
	rcu_read_unlock();
	return gone;
}

static void process_ended(const struct capkm_watch *w)
{
	capkm_client_end(w->file->session, to_proc(w->pid), NULL);
}

static void image_ended(const struct capkm_watch *w)
{
	capkm_client_end(w->file->session, to_proc(w->pid), w->mm);
}

static void gone_work(struct work_struct *work)
{
	struct capkm_watch *w = container_of(work, struct capkm_watch, gone_work);

	/* Release ends all that is left, together with the session. */
	if (READ_ONCE(w->file->released))
		return;
	if (READ_ONCE(w->mm_over))
		image_ended(w);
	/* A traced thread, or a leader whose threads go on, also wakes us. */
	if (is_gone(w->pid))
		process_ended(w);
}

static int wake_gone(struct wait_queue_entry *wait, unsigned int mode, int sync,
		     void *key)
{
	struct capkm_watch *w = container_of(wait, struct capkm_watch, wait);

	queue_work(capkm_wq, &w->gone_work);
	return 0;
}

static void mm_gone(struct mmu_notifier *notifier, struct mm_struct *mm)
{
	struct capkm_watch *w = container_of(notifier, struct capkm_watch,
					     notifier);

	WRITE_ONCE(w->mm_over, true);
	queue_work(capkm_wq, &w->gone_work);
}

static const struct mmu_notifier_ops mm_ops = {
	.release	= mm_gone,
};

/* Takes mmap_lock. A signal may come; nothing has happened then. */
static int watch_mm(struct capkm_watch *w)
{
	int err = mmu_notifier_register(&w->notifier, w->mm);

	w->notifies = !err;
	return err == -EINTR ? -ERESTARTSYS : err;
}

/* Of the current process; its mm is not watched yet. */
static struct capkm_watch *watch_new(struct capkm_file *cf)
{
	struct capkm_watch *w;

	/* A kernel thread is nobody's client. */
	if (!current->mm)
		return ERR_PTR(-ENXIO);

	w = kzalloc(sizeof(*w), GFP_KERNEL_ACCOUNT);
	if (!w)
		return ERR_PTR(-ENOMEM);

	w->file = cf;
	w->mm = current->mm;
	w->notifier.ops = &mm_ops;
	mmgrab(w->mm);
	w->pid = get_pid(task_tgid(current));
	INIT_WORK(&w->gone_work, gone_work);
	init_waitqueue_func_entry(&w->wait, wake_gone);
	add_wait_queue(&w->pid->wait_pidfd, &w->wait);

	mutex_lock(&cf->watch_lock);
	list_add_tail(&w->sib, &cf->watches);
	mutex_unlock(&cf->watch_lock);
	return w;
}

/* It is on no list any more. */
static void watch_free(struct capkm_watch *w)
{
	if (w->notifies)
		mmu_notifier_unregister(&w->notifier, w->mm);
	remove_wait_queue(&w->pid->wait_pidfd, &w->wait);
	cancel_work_sync(&w->gone_work);
	put_pid(w->pid);
	mmdrop(w->mm);
	kfree(w);
}

static void watch_del(struct capkm_file *cf, struct capkm_watch *w)
{
	mutex_lock(&cf->watch_lock);
	list_del(&w->sib);
	mutex_unlock(&cf->watch_lock);
	watch_free(w);
}

static void watches_free(struct list_head *list)
{
	struct capkm_watch *w, *next;

	list_for_each_entry_safe(w, next, list, sib)
		watch_free(w);
}

/* That of the current image, or NULL. Frees those whose image is gone. */
static struct capkm_watch *watch_find(struct capkm_file *cf)
{
	struct capkm_watch *w, *next, *found = NULL;
	LIST_HEAD(gone);

	mutex_lock(&cf->watch_lock);
	list_for_each_entry_safe(w, next, &cf->watches, sib) {
		if (w->pid == task_tgid(current) && w->mm == current->mm)
			found = w;
		else if (is_gone(w->pid) || !atomic_read(&w->mm->mm_users))
			list_move(&w->sib, &gone);
	}
	mutex_unlock(&cf->watch_lock);
	/* Their work may not have come to it. */
	list_for_each_entry(w, &gone, sib)
		image_ended(w);
	watches_free(&gone);
	return found;
}

static int capkm_open(struct inode *inode, struct file *file)
{
	struct capkm_caller who;
	struct capkm_file *cf;
	struct capkm_watch *w;
	int err;

	cf = kzalloc(sizeof(*cf), GFP_KERNEL_ACCOUNT);
	if (!cf)
		return -ENOMEM;
	mutex_init(&cf->join_lock);
	mutex_init(&cf->read_lock);
	mutex_init(&cf->watch_lock);
	INIT_LIST_HEAD(&cf->watches);

	capkm_caller_init(&who);
	err = capkm_session_open(&who, &cf->session);
	if (err)
		goto err_free;

	w = watch_new(cf);
	if (IS_ERR(w)) {
		err = PTR_ERR(w);
		goto err_session;
	}

	/* Not here: whoever opens a misc device holds a lock of all of them. */
	cf->mm_unwatched = true;
	cf->opener = get_pid(w->pid);
	file->private_data = cf;
	return nonseekable_open(inode, file);

err_session:
	capkm_session_release(cf->session);
err_free:
	kfree(cf);
	return err;
}

/* Is @files the table of each thread of the process that still has one? */
static bool all_share(struct pid *pid, const struct files_struct *files)
{
	struct task_struct *leader, *t;
	const struct files_struct *its;
	bool all;

	rcu_read_lock();
	leader = pid_task(pid, PIDTYPE_TGID);
	all = leader;
	if (leader) {
		for_each_thread(leader, t) {
			/* It is compared and never followed. */
			its = READ_ONCE(t->files);
			if (its && its != files)
				all = false;
		}
	}
	rcu_read_unlock();
	return all;
}

static int is_file(const void *file, struct file *other, unsigned int fd)
{
	return file == other;
}

/* Has the caller's table no descriptor of the session any more? */
static bool has_left(struct file *file)
{
	return !iterate_fd(current->files, 0, is_file, file);
}

/* The descriptor is off the table by now. */
static int capkm_flush(struct file *file, fl_owner_t id)
{
	struct files_struct *files = current->files;
	struct capkm_file *cf = file->private_data;
	struct capkm_watch *w;
	bool left;

	/* Ours is the last reference: release is next. */
	if (file_count(file) == 1)
		return 0;

	/* At exit the table is nobody's any more. */
	left = files && id == files && has_left(file);

	mutex_lock(&cf->watch_lock);
	list_for_each_entry(w, &cf->watches, sib) {
		if (left && all_share(w->pid, files))
			image_ended(w);
		if (task_tgid(current) != w->pid)
			continue;
		if (!atomic_read(&current->signal->live))
			process_ended(w);
		else if (current->mm && current->mm != w->mm)
			image_ended(w);
	}
	mutex_unlock(&cf->watch_lock);
	return 0;
}

static int capkm_release(struct inode *inode, struct file *file)
{
	struct capkm_file *cf = file->private_data;

	/* Clients that live end together with their session. */
	WRITE_ONCE(cf->released, true);
	watches_free(&cf->watches);
	capkm_session_release(cf->session);
	put_pid(cf->opener);
	kfree(cf);
	return 0;
}

static int copy_in(void *dst, u64 src, size_t n)
{
	return copy_from_user(dst, u64_to_user_ptr(src), n) ? -EFAULT : 0;
}

static int copy_out(u64 dst, const void *src, size_t n)
{
	return copy_to_user(u64_to_user_ptr(dst), src, n) ? -EFAULT : 0;
}

static const struct capkm_copier user_memory = {
	.in	= copy_in,
	.out	= copy_out,
};

static long call(struct capkm_file *cf, unsigned int nr, unsigned long arg)
{
	struct capkm_caller who;

	capkm_caller_init(&who);
	return capkm_call(cf->session, nr, arg, &user_memory, &who);
}

/* The opener's first call: before it can have anything that its end must mend. */
static int watch_opener(struct capkm_file *cf)
{
	struct capkm_watch *w;
	int err = 0;

	if (task_tgid(current) != cf->opener)
		return 0;
	if (mutex_lock_interruptible(&cf->join_lock))
		return -ERESTARTSYS;
	w = watch_find(cf);
	if (w && !w->notifies)
		err = watch_mm(w);
	if (!err)
		WRITE_ONCE(cf->mm_unwatched, false);
	mutex_unlock(&cf->join_lock);
	return err;
}

/* A new client is watched before it can have anything that its end must mend. */
static long join(struct file *file, unsigned long arg)
{
	struct capkm_file *cf = file->private_data;
	struct capkm_watch *made = NULL;
	struct capkm_caller who;
	long err;

	if (mutex_lock_interruptible(&cf->join_lock))
		return -ERESTARTSYS;

	if (!watch_find(cf)) {
		made = watch_new(cf);
		if (IS_ERR(made)) {
			err = PTR_ERR(made);
			goto out;
		}
		err = watch_mm(made);
		if (err) {
			watch_del(cf, made);
			goto out;
		}
	}
	err = call(cf, CAPKM_NR_SESSION_JOIN, arg);

	/* The call may also have joined and failed to say so. */
	capkm_caller_init(&who);
	if (made && !capkm_session_is_client(cf->session, &who))
		watch_del(cf, made);
	/* Another thread has closed the last descriptor; flush knew no client. */
	else if (made && has_left(file) && all_share(made->pid, current->files))
		image_ended(made);
out:
	mutex_unlock(&cf->join_lock);
	return err;
}

static long capkm_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct capkm_file *cf = file->private_data;
	int err;

	if (cmd != _IO(CAPKM_TYPE, _IOC_NR(cmd)))
		return -ENOTTY;
	if (READ_ONCE(cf->mm_unwatched)) {
		err = watch_opener(cf);
		if (err)
			return err;
	}
	if (cmd == CAPKM_IOC_SESSION_JOIN)
		return join(file, arg);
	return call(cf, _IOC_NR(cmd), arg);
}

static int lock_reader(struct capkm_file *cf, bool wait)
{
	if (!wait)
		return mutex_trylock(&cf->read_lock) ? 0 : -EAGAIN;
	return mutex_lock_interruptible(&cf->read_lock) ? -ERESTARTSYS : 0;
}

/* An event is copied before it is taken: one that the reader lacks is not lost. */
static int read_one(struct capkm_file *cf, const struct capkm_caller *who,
		    bool wait, char __user *buf)
{
	struct capkm_event event;
	int ret;

	ret = capkm_event_next(cf->session, who, wait, &event);
	if (ret <= 0)
		return ret == -EINTR ? -ERESTARTSYS : ret;
	if (copy_to_user(buf, &event, sizeof(event)))
		return -EFAULT;
	capkm_event_taken(cf->session, &event);
	return 1;
}

/* Whole events, and only the first is waited for. */
static ssize_t capkm_read(struct file *file, char __user *buf, size_t count,
			  loff_t *pos)
{
	const bool wait = !(file->f_flags & O_NONBLOCK);
	struct capkm_file *cf = file->private_data;
	struct capkm_caller who;
	size_t done = 0;
	int ret;

	if (count < sizeof(struct capkm_event))
		return -EINVAL;
	ret = lock_reader(cf, wait);
	if (ret)
		return ret;

	capkm_caller_init(&who);
	do {
		ret = read_one(cf, &who, wait && !done, buf + done);
		if (ret <= 0)
			break;
		done += sizeof(struct capkm_event);
	} while (count - done >= sizeof(struct capkm_event));

	mutex_unlock(&cf->read_lock);
	if (done)
		return done;
	return ret;
}

static __poll_t capkm_poll(struct file *file, poll_table *table)
{
	struct capkm_file *cf = file->private_data;
	struct host_waitq *q = capkm_session_waitq(cf->session);
	__poll_t mask = 0;
	u32 what;

	if (!q)
		return EPOLLERR;	/* it is not attached */
	poll_wait(file, &q->head, table);

	what = capkm_session_poll(cf->session);
	if (what & CAPKM_POLL_IN)
		mask |= EPOLLIN | EPOLLRDNORM;
	if (what & CAPKM_POLL_HUP)
		mask |= EPOLLHUP;
	if (what & CAPKM_POLL_ERR)
		mask |= EPOLLERR;
	return mask;
}

static int capkm_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct capkm_file *cf = file->private_data;

	return capkm_mmap_session(cf->session, vma);
}

#ifdef CONFIG_PROC_FS
/*
 * A line for each member of struct capkm_session_stats, and the process that
 * opened the session, in the reader's pid namespace, 0 if it is not visible
 * there. Whoever may look at the process may look at its descriptors.
 */
static void capkm_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct capkm_file *cf = file->private_data;
	struct capkm_session_stats st;

	capkm_session_stats(cf->session, &st);
	seq_printf(m, "capkm-opener:\t%u\n", host_proc_pid(to_proc(cf->opener)));
	seq_printf(m, "capkm-domain:\t%llu\n", st.domain);
	seq_printf(m, "capkm-session:\t%llu\n", st.session);
	seq_printf(m, "capkm-rights:\t%s%s\n",
		   st.rights & CAPKM_RIGHT_READ ? "r" : "-",
		   st.rights & CAPKM_RIGHT_WRITE ? "w" : "-");
	seq_printf(m, "capkm-clients:\t%u\n", st.clients);
	seq_printf(m, "capkm-buffers:\t%llu\n", st.buffers);
	seq_printf(m, "capkm-streams:\t%llu\n", st.streams);
	seq_printf(m, "capkm-scopes:\t%llu\n", st.scopes);
	seq_printf(m, "capkm-windows:\t%llu\n", st.windows);
	seq_printf(m, "capkm-graphs:\t%llu\n", st.graphs);
	seq_printf(m, "capkm-unconfirmed:\t%llu\n", st.unconfirmed);
}
#endif

static const struct file_operations capkm_fops = {
	.owner		= THIS_MODULE,
	.open		= capkm_open,
	.flush		= capkm_flush,
	.release	= capkm_release,
	.read		= capkm_read,
	.poll		= capkm_poll,
	.mmap		= capkm_mmap,
	.unlocked_ioctl	= capkm_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
#ifdef CONFIG_PROC_FS
	.show_fdinfo	= capkm_show_fdinfo,
#endif
};

static int is_session(const void *unused, struct file *file, unsigned int fd)
{
	return file->f_op == &capkm_fops;
}

/* Opened only for its path, a file has no operations of ours. */
bool capkm_has_device(void)
{
	return iterate_fd(current->files, 0, is_session, NULL);
}

static struct miscdevice capkm_misc = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "capkm",
	.nodename = "capkm",
	/* What protects a domain is its owner and its mode. */
	.mode	= 0666,
	.fops	= &capkm_fops,
};

int __init capkm_chardev_init(void)
{
	return misc_register(&capkm_misc);
}

void capkm_chardev_exit(void)
{
	misc_deregister(&capkm_misc);
}

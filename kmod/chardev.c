// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/capkm: each open file description is a session of the engine.
 *
 * The end of a client
 * -------------------
 * The engine wants to know when the process that opened the session is gone,
 * however long the description lives on: in a child, in another process that
 * shares the file table, in a message under way. There are three who see it;
 * telling the engine twice is harmless.
 *
 *  - flush: when the process ends, its last thread closes the file table. By
 *    then signal->live is 0. Exec closes a close-on-exec descriptor when there
 *    is no way back to the old program any more, before it changes the mm. A
 *    descriptor that is not close-on-exec may be closed later, under a new mm.
 *  - the backstop, for a process that has no descriptor any more or whose file
 *    table outlives it: the kernel wakes pid->wait_pidfd when the leader has
 *    become a zombie and no other thread is left. The callback runs under
 *    tasklist_lock, so all it does is to queue the work that looks.
 *  - release: the description itself is gone.
 *
 * Work and callback end before release goes on: remove_wait_queue() waits for
 * a callback that is running, after it nobody queues the work.
 */
#include <linux/capability.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "capkm.h"
#include "engine/engine.h"

/* All fields are set by open and then constant. */
struct capkm_file {
	struct capkm_session *session;
	struct pid *opener;		/* a thread group; a reference */
	struct mm_struct *mm;		/* of the opener; pinned, never used */
	struct wait_queue_entry wait;	/* on opener->wait_pidfd */
	struct work_struct gone_work;
};

static struct host_proc *opener(const struct capkm_file *cf)
{
	return (struct host_proc *)cf->opener;
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

static void gone_work(struct work_struct *work)
{
	struct capkm_file *cf = container_of(work, struct capkm_file, gone_work);

	/* A traced thread, or a leader whose threads go on, also wakes us. */
	if (is_gone(cf->opener))
		capkm_client_end(cf->session, opener(cf), NULL);
}

static int wake_gone(struct wait_queue_entry *wait, unsigned int mode, int sync,
		     void *key)
{
	struct capkm_file *cf = container_of(wait, struct capkm_file, wait);

	queue_work(capkm_wq, &cf->gone_work);
	return 0;
}

static int capkm_open(struct inode *inode, struct file *file)
{
	struct capkm_caller who;
	struct capkm_file *cf;
	int err;

	/* A kernel thread is nobody's client. */
	if (!current->mm)
		return -ENXIO;

	cf = kzalloc(sizeof(*cf), GFP_KERNEL_ACCOUNT);
	if (!cf)
		return -ENOMEM;

	capkm_caller_init(&who);
	err = capkm_session_open(&who, &cf->session);
	if (err) {
		kfree(cf);
		return err;
	}

	cf->opener = get_pid(task_tgid(current));
	/* So that no other mm gets its address. */
	mmgrab(current->mm);
	cf->mm = current->mm;
	INIT_WORK(&cf->gone_work, gone_work);
	init_waitqueue_func_entry(&cf->wait, wake_gone);
	add_wait_queue(&cf->opener->wait_pidfd, &cf->wait);

	file->private_data = cf;
	return nonseekable_open(inode, file);
}

static int capkm_flush(struct file *file, fl_owner_t id)
{
	struct capkm_file *cf = file->private_data;

	if (task_tgid(current) != cf->opener)
		return 0;

	if (!atomic_read(&current->signal->live) || current->in_execve)
		capkm_client_end(cf->session, opener(cf), NULL);
	else if (current->mm && current->mm != cf->mm)
		capkm_client_end(cf->session, opener(cf), current->mm);
	return 0;
}

static int capkm_release(struct inode *inode, struct file *file)
{
	struct capkm_file *cf = file->private_data;

	remove_wait_queue(&cf->opener->wait_pidfd, &cf->wait);
	cancel_work_sync(&cf->gone_work);
	capkm_session_release(cf->session);
	mmdrop(cf->mm);
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

static long capkm_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct capkm_file *cf = file->private_data;
	struct capkm_caller who;

	if (cmd != _IO(CAPKM_TYPE, _IOC_NR(cmd)))
		return -ENOTTY;

	capkm_caller_init(&who);
	return capkm_call(cf->session, _IOC_NR(cmd), arg, &user_memory, &who);
}

#ifdef CONFIG_PROC_FS
static void capkm_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct capkm_file *cf = file->private_data;

	seq_printf(m, "capkm-opener:\t%u\n", host_proc_pid(opener(cf)));
}
#endif

static const struct file_operations capkm_fops = {
	.owner		= THIS_MODULE,
	.open		= capkm_open,
	.flush		= capkm_flush,
	.release	= capkm_release,
	.unlocked_ioctl	= capkm_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
#ifdef CONFIG_PROC_FS
	.show_fdinfo	= capkm_show_fdinfo,
#endif
};

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

//! A loop as seen by other threads: posts tasks to it.

use super::driver::DriverId;
use super::handle::Handle;
use crate::sync::{AtomicBool, Lock, Ordering, fence};
use std::sync::Arc;

/// Requests to a loop. Waking is separate because it happens per operation and must not allocate.
enum Task {
    Run(Box<dyn FnOnce(&Handle) + Send>),
    Wake(DriverId),
}

/// Posts tasks to a loop from any thread.
#[derive(Clone)]
pub struct RemoteLoop(Arc<TaskQueue>);

struct TaskQueue {
    /// `None` if the loop has ended.
    tasks: Lock<Option<Vec<Task>>>,
    /// An empty list, which keeps the memory of tasks that have run. Only the loop uses it.
    spare: Lock<Vec<Task>>,
    pending: AtomicBool,
    sleeping: AtomicBool,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl RemoteLoop {
    pub(super) fn new(wake: Arc<dyn Fn() + Send + Sync>) -> Self {
        Self(Arc::new(TaskQueue {
            tasks: Lock::new(Some(Vec::new())),
            spare: Lock::default(),
            pending: AtomicBool::new(false),
            sleeping: AtomicBool::new(false),
            wake,
        }))
    }

    /// Runs `task` on the loop's thread, in the order of posting. When the loop ends, it drops
    /// tasks that have not run; later ones are dropped at once.
    pub fn post(&self, task: impl FnOnce(&Handle) + Send + 'static) {
        self.put(Task::Run(Box::new(task)));
    }

    /// Wakes a driver of the loop, like [`Handle::wake`], in order with posted tasks.
    pub fn wake(&self, driver: DriverId) {
        self.put(Task::Wake(driver));
    }

    fn put(&self, task: Task) {
        match &mut *self.0.tasks.lock() {
            Some(tasks) => tasks.push(task),
            None => return,
        }
        self.0.pending.store(true, Ordering::Release);
        // The loop announces its sleep before it looks at `pending` for the last time: of two
        // fences one is the first, so one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.0.sleeping.load(Ordering::Relaxed) {
            (self.0.wake)();
        }
    }

    /// Returns whether both refer to the same loop.
    pub fn is_same_loop(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The loop has ended: drops tasks that have not run.
    pub(super) fn close(&self) {
        let unrun = self.0.tasks.lock().take();
        drop(unrun);
    }

    /// Returns whether tasks wait.
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        self.0.pending.load(Ordering::Relaxed)
    }

    /// Announces that the loop is about to sleep; `false` if tasks arrived first.
    pub(super) fn going_to_sleep(&self) -> bool {
        self.0.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.0.pending.load(Ordering::Relaxed) {
            self.awake();
            return false;
        }
        true
    }

    pub(super) fn awake(&self) {
        self.0.sleeping.store(false, Ordering::Relaxed);
    }

    /// Runs posted tasks; returns whether there were any.
    pub(super) fn run_tasks(&self, on: &Handle) -> bool {
        // Cleared before the list is taken: a later post sets it again.
        if !self.0.pending.swap(false, Ordering::AcqRel) {
            return false;
        }
        let empty = core::mem::take(&mut *self.0.spare.lock());
        let mut tasks = self
            .0
            .tasks
            .lock()
            .as_mut()
            .map(|tasks| core::mem::replace(tasks, empty))
            .unwrap_or_default();
        let some = !tasks.is_empty();
        for task in tasks.drain(..) {
            match task {
                Task::Run(task) => task(on),
                Task::Wake(driver) => on.wake(driver),
            }
        }
        *self.0.spare.lock() = tasks;
        some
    }
}

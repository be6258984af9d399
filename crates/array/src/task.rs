//! Tasks: requests that take several steps, written in the order in which they happen.
//!
//! A task is a future that waits only for events the engine is told (a member's completion, a metadata update that ended, the
//! time), so the engine still does no I/O: [`Tasks::run`] advances what can advance, and returns. There is one thread and a
//! queue, so the same events give the same run. Wakers are not used: a waiting task leaves its [`TaskId`], and every wait
//! tolerates being polled once too often.

use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

pub(crate) type TaskId = usize;
type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A task's turn: its first, or one of the next.
enum Turn {
    First(Task),
    Next(TaskId),
}

/// The state that tasks share with their runner.
#[derive(Default)]
pub(crate) struct Ready {
    queue: RefCell<VecDeque<Turn>>,
    current: Cell<TaskId>,
}

impl Ready {
    /// The task that runs now.
    pub fn current(&self) -> TaskId {
        self.current.get()
    }

    /// True if a task can advance.
    pub fn has_any(&self) -> bool {
        !self.queue.borrow().is_empty()
    }

    pub fn wake(&self, task: TaskId) {
        self.queue.borrow_mut().push_back(Turn::Next(task));
    }

    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.queue.borrow_mut().push_back(Turn::First(Box::pin(task)));
    }

    /// Waits until `condition` is true. It is evaluated now and whenever `waiters` are woken.
    pub async fn until(&self, waiters: &Waiters, mut condition: impl FnMut() -> bool) {
        poll_fn(|_| {
            if condition() {
                return Poll::Ready(());
            }
            waiters.0.borrow_mut().push(self.current());
            Poll::Pending
        })
        .await;
    }
}

/// Tasks that wait for one thing to change.
#[derive(Default)]
pub(crate) struct Waiters(RefCell<Vec<TaskId>>);

impl Waiters {
    pub fn wake_all(&self, ready: &Ready) {
        for task in self.0.borrow_mut().drain(..) {
            ready.wake(task);
        }
    }
}

/// Tasks that do one job after another, so that jobs reuse their memory.
pub(crate) struct Crew<J>(RefCell<Vec<Rc<Worker<J>>>>);

/// One task of a crew.
pub(crate) struct Worker<J> {
    /// `None`: its task has not run yet.
    task: Cell<Option<TaskId>>,
    job: Cell<Option<J>>,
}

impl<J> Default for Crew<J> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<J> Crew<J> {
    /// Gives a job to an idle worker. If none is idle, returns a new worker, whose task must be spawned.
    pub fn hand(&self, ready: &Ready, job: J) -> Option<Rc<Worker<J>>> {
        let Some(worker) = self.0.borrow_mut().pop() else {
            return Some(Rc::new(Worker { task: Cell::new(None), job: Cell::new(Some(job)) }));
        };
        worker.job.set(Some(job));
        ready.wake(worker.task.get().expect("an idle worker has run"));
        None
    }

    /// The next job of a worker, which is idle until it comes.
    pub async fn job(&self, ready: &Ready, worker: &Rc<Worker<J>>) -> J {
        if worker.task.replace(Some(ready.current())).is_some() {
            self.0.borrow_mut().push(Rc::clone(worker));
        }
        poll_fn(|_| worker.job.take().map_or(Poll::Pending, Poll::Ready)).await
    }
}

/// Owns and runs the tasks.
#[derive(Default)]
pub(crate) struct Tasks(Slab<Task>);

impl Tasks {
    /// Advances until every task waits. Returns whether any ran.
    pub fn run(&mut self, ready: &Ready) -> bool {
        let mut ran = false;
        loop {
            let Some(turn) = ready.queue.borrow_mut().pop_front() else { return ran };
            let id = match turn {
                Turn::First(task) => self.0.insert(task),
                Turn::Next(id) => id,
            };
            // A wake may come after its task has ended.
            let Some(task) = self.0.get_mut(id) else { continue };
            ready.current.set(id);
            ran = true;
            if task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                drop(self.0.remove(id));
            }
        }
    }

    /// Tasks that have not ended.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

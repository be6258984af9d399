//! Threads that a service needs as long as it lives. A start asks for all of them, and is refused in words where the system gives
//! none: later there would be nothing to refuse, and an order or a stop would wait for a thread.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use stria_block::NO_THREAD;
use stria_terminal::Failure;
use tokio::runtime::{self, Runtime};

/// Starts a thread.
///
/// # Errors
/// The system gives none.
pub fn start<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>, Failure> {
    let thread = Builder::new().name(name.into()).spawn(work);
    thread.map_err(|error| Failure::failed(format!("cannot start the thread \"{name}\": {error}; {NO_THREAD}")))
}

/// The runtime of a service, with one thread for work that waits. That thread stays: tokio panics if work that waits finds no
/// thread and the system gives none, but lets it wait for a thread that exists.
///
/// # Errors
/// The system gives no thread, or something else that a runtime needs.
pub fn runtime() -> Result<Runtime, Failure> {
    let mut builder = runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().thread_keep_alive(Duration::MAX).build().map_err(Failure::failed)?;
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let first = catch_unwind(AssertUnwindSafe(|| runtime.spawn_blocking(|| ())));
    set_hook(hook);
    match first {
        Ok(_) => Ok(runtime),
        Err(_) => Err(Failure::failed(format!("cannot start a thread for work that waits: {NO_THREAD}"))),
    }
}

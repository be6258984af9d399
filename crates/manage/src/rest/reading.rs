//! Bounds on clients that do not read: the time that a connection waits for one, and the memory of all answers that wait.

use axum::body::{Body, Bytes};
use axum::http::Response;
use http_body_util::BodyExt;
use hyper::body::Body as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A client that has not taken [`LEAST_BYTES`] within this time while more of its answer waits is cut off.
const PATIENCE: Duration = Duration::from_secs(20);
/// 1.6 KiB/s: below what the slowest modem reads.
const LEAST_BYTES: usize = 32 << 10;
/// The memory of all answers and streams that wait to be read: two of the largest reports.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// An answer that is not larger is not counted: all connections together have less than 8 MiB of them.
const SMALL_BYTES: usize = 64 << 10;

/// A connection that ends with an error once its other end does not read.
pub struct Read<S> {
    stream: S,
    patience: Duration,
    waits: Option<Wait>,
}

/// What the other end has taken since something began to wait.
struct Wait {
    taken: usize,
    end: Pin<Box<Sleep>>,
}

impl<S> Read<S> {
    pub fn new(stream: S) -> Self {
        Self::within(stream, PATIENCE)
    }

    fn within(stream: S, patience: Duration) -> Self {
        Self { stream, patience, waits: None }
    }

    /// After a write: nothing waits if the other end took all of it.
    fn took(&mut self, taken: usize, offered: usize) {
        match &mut self.waits {
            Some(wait) if taken < offered => wait.taken += taken,
            waits => *waits = None,
        }
    }

    /// Pending until the other end takes more, or its time is over.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let patience = self.patience;
        let wait = self.waits.get_or_insert_with(|| Wait { taken: 0, end: Box::pin(sleep(patience)) });
        loop {
            ready!(wait.end.as_mut().poll(context));
            if wait.taken < LEAST_BYTES {
                return Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answer"));
            }
            wait.taken = 0;
            wait.end.as_mut().reset(Instant::now() + patience);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Read<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Read<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write_vectored(context, parts) {
            Poll::Ready(Ok(taken)) => {
                self.took(taken, parts.iter().map(|part| part.len()).sum());
                Poll::Ready(Ok(taken))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.wait(context).map(Err),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The memory of answers that wait to be read.
#[derive(Clone, Default)]
pub struct Waiting(Arc<AtomicUsize>);

/// A part of it, until it is dropped.
pub struct Held {
    of: Waiting,
    bytes: usize,
}

/// The bytes of an answer, and their part.
struct Answer {
    bytes: Bytes,
    _held: Held,
}

impl Waiting {
    /// A part of so many bytes. `None`: answers that wait have all of it.
    pub fn hold(&self, bytes: usize) -> Option<Held> {
        let add = |all: usize| all.checked_add(bytes).filter(|all| *all <= WAITING_BYTES_MAX);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Held { of: self.clone(), bytes })
    }

    /// Counts the bytes of a response until the last of them is sent. `None`: there is no memory for them. A stream holds a part
    /// by itself.
    pub async fn count(&self, response: Response<Body>) -> Option<Response<Body>> {
        let (head, body) = response.into_parts();
        let size = body.size_hint().exact().unwrap_or(0) as usize;
        if size <= SMALL_BYTES {
            return Some(Response::from_parts(head, body));
        }
        let held = self.hold(size)?;
        // All of it is in memory already.
        let bytes = body.collect().await.ok()?.to_bytes();
        Some(Response::from_parts(head, Body::from(Bytes::from_owner(Answer { bytes, _held: held }))))
    }
}

impl AsRef<[u8]> for Answer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::task::JoinHandle;

    fn run(work: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(work);
    }

    /// A writer of 256 KiB through a pipe of 4 KiB.
    fn pipe(patience: Duration) -> (JoinHandle<io::Result<()>>, DuplexStream) {
        let (near, far) = duplex(4 << 10);
        let write = tokio::spawn(async move { Read::within(near, patience).write_all(&vec![7; 256 << 10]).await });
        (write, far)
    }

    #[test]
    fn a_client_that_reads_nothing_is_cut_off() {
        run(async {
            let (write, _far) = pipe(Duration::from_millis(100));
            let outcome = write.await.expect("no panic");
            assert_eq!(outcome.expect_err("nobody reads").kind(), io::ErrorKind::TimedOut);
        });
    }

    /// `LEAST_BYTES` in a second: half of that is too slow, twenty times that is not.
    #[test]
    fn a_client_that_reads_too_slowly_is_cut_off_and_a_slow_one_is_not() {
        for (bytes, pause_ms, is_enough) in [(LEAST_BYTES / 20, 100, false), (LEAST_BYTES, 50, true)] {
            run(async move {
                let (write, mut far) = pipe(Duration::from_secs(1));
                let read = tokio::spawn(async move {
                    let mut buffer = vec![0; bytes];
                    while far.read_exact(&mut buffer).await.is_ok() {
                        sleep(Duration::from_millis(pause_ms)).await;
                    }
                });
                let outcome = write.await.expect("no panic");
                assert_eq!(outcome.is_ok(), is_enough, "{bytes} bytes each {pause_ms} ms: {outcome:?}");
                read.abort();
            });
        }
    }

    /// A stream writes little and waits long: the time counts only while something waits.
    #[test]
    fn a_client_that_has_read_all_may_wait_for_more() {
        run(async {
            let patience = Duration::from_millis(50);
            let (near, mut far) = duplex(4 << 10);
            let mut near = Read::within(near, patience);
            let mut buffer = vec![0; 6 << 10];
            for _ in 0..3 {
                let (write, read) = tokio::join!(near.write_all(&[7; 6 << 10]), far.read_exact(&mut buffer));
                write.and(read.map(|_| ())).expect("both go on");
                sleep(patience * 3).await;
            }
        });
    }

    #[test]
    fn answers_that_wait_have_a_bound_and_give_their_part_back() {
        run(async {
            let waiting = Waiting::default();
            let large = |count: &Waiting| {
                let count = count.clone();
                async move { count.count(Response::new(Body::from(vec![7; WAITING_BYTES_MAX / 4 + 1]))).await }
            };
            let mut answers = Vec::new();
            while let Some(answer) = large(&waiting).await {
                answers.push(answer.into_body().collect().await.expect("bytes").to_bytes());
            }
            assert_eq!(answers.len(), 3);
            assert!(waiting.count(Response::new(Body::from(vec![7; SMALL_BYTES]))).await.is_some(), "a small one goes on");
            // A part of the bytes holds all of them.
            let part = answers.pop().expect("an answer").slice(..1);
            assert!(large(&waiting).await.is_none());
            drop(part);
            assert!(large(&waiting).await.is_some());
            drop(answers);
            assert_eq!(waiting.0.load(Ordering::Relaxed), 0);
        });
    }
}

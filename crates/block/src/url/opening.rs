//! A device that is being opened: [`Opening`], a future.
//!
//! Opening never blocks the caller. To open several devices (a stripe, a mirror, a target with many
//! namespaces), begin all of them and then await each, so that they open concurrently. A thread
//! that may block calls `wait`.

use crate::device::Device;
use crate::outcome::error::{Error, ErrorKind};
use crate::queue::waiting;
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;
use std::thread::{self, Thread};
use std::time::Duration;
use weft_base::lock::Lock;

/// Time between two looks whether whoever waits is told to stop.
const STOP_LOOK: Duration = Duration::from_millis(50);

/// A device that is being opened. Opening proceeds without polling; if this is dropped, the
/// resulting device is dropped too.
pub type Opening = Pending<Device>;

type Outcome<T> = Result<T, Error>;

/// A value that is provided later, once, or an error.
pub struct Pending<T>(Pin<Box<dyn Future<Output = Outcome<T>> + Send>>);

impl<T: Send + 'static> Pending<T> {
    /// A value that is available at once.
    pub fn ready(outcome: Result<T, Error>) -> Self {
        Self::of(core::future::ready(outcome))
    }

    /// The value of a future.
    pub fn of(future: impl Future<Output = Result<T, Error>> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }

    /// A value that the [`Promise`] provides, from any thread.
    pub fn promised() -> (Promise<T>, Self) {
        let cell = Arc::<Cell<T>>::new(Cell(Lock::new(Answer { outcome: None, waker: None })));
        (Promise(Some(Arc::clone(&cell))), Self::of(Promised(cell)))
    }

    /// Applies `change` to the value when it is available.
    pub fn and_then<U: Send + 'static>(
        self,
        change: impl FnOnce(T) -> Result<U, Error> + Send + 'static,
    ) -> Pending<U> {
        Pending::of(async move { change(self.await?) })
    }

    /// All values, in this order, when the last one is available; the first error as soon as it
    /// occurs.
    pub fn all(parts: Vec<Self>) -> Pending<Vec<T>> {
        let mut parts: Vec<(Self, Option<T>)> =
            parts.into_iter().map(|part| (part, None)).collect();
        Pending::of(core::future::poll_fn(move |context| {
            let mut missing = false;
            for (part, value) in parts.iter_mut().filter(|(_, value)| value.is_none()) {
                match Pin::new(part).poll(context) {
                    Poll::Ready(outcome) => *value = Some(outcome?),
                    Poll::Pending => missing = true,
                }
            }
            if missing {
                return Poll::Pending;
            }
            Poll::Ready(Ok(parts.drain(..).filter_map(|(_, value)| value).collect()))
        }))
    }

    /// Applies `explain` to the error, if there is one.
    pub fn map_err(self, explain: impl FnOnce(Error) -> Error + Send + 'static) -> Self {
        Self::of(async move { self.await.map_err(explain) })
    }

    /// Blocks this thread until the value is available; not for threads of event loops. The
    /// provider of the value limits the time.
    pub fn wait(self) -> Result<T, Error> {
        // Callers that know more have begun a wait with a name.
        let _waiting = waiting::begin(|| "an answer".into());
        wait(self)
    }

    /// As [`Pending::wait`], and gives up soon after `stop` is set: `None`.
    pub fn wait_unless(mut self, stop: &AtomicBool) -> Option<Result<T, Error>> {
        let _waiting = waiting::begin(|| "an answer".into());
        let (waker, mut outcome) = (unpark(), None);
        let mut context = Context::from_waker(&waker);
        while outcome.is_none() && !stop.load(Ordering::Relaxed) {
            match Pin::new(&mut self).poll(&mut context) {
                Poll::Ready(value) => outcome = Some(value),
                Poll::Pending => thread::park_timeout(STOP_LOOK),
            }
        }
        outcome
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

/// The providing end of a [`Pending`]. Dropping it produces an error there.
pub struct Promise<T>(Option<Arc<Cell<T>>>);

struct Cell<T>(Lock<Answer<T>>);

struct Answer<T> {
    outcome: Option<Outcome<T>>,
    waker: Option<Waker>,
}

impl<T> Cell<T> {
    fn complete(&self, outcome: Outcome<T>) {
        let waker = {
            let mut state = self.0.lock();
            state.outcome = Some(outcome);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Promise<T> {
    /// Provides the value.
    pub fn complete(mut self, outcome: Result<T, Error>) {
        if let Some(cell) = self.0.take() {
            cell.complete(outcome);
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        if let Some(cell) = self.0.take() {
            cell.complete(Err(Error::new(
                ErrorKind::Io,
                "the event loop that should open it has ended",
            )));
        }
    }
}

struct Promised<T>(Arc<Cell<T>>);

impl<T> Future for Promised<T> {
    type Output = Outcome<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<T>> {
        let mut state = self.0.0.lock();
        match state.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Returns a waker of this thread.
fn unpark() -> Waker {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    Waker::from(Arc::new(Unpark(thread::current())))
}

/// Blocks this thread until `future` completes.
fn wait<F: Future>(future: F) -> F::Output {
    let waker = unpark();
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_promised_arrives_from_another_thread() {
        let (promise, pending) = Pending::promised();
        let completing = thread::spawn(move || promise.complete(Ok(7)));
        assert_eq!(pending.and_then(|n| Ok(n * 6)).wait().unwrap(), 42);
        completing.join().unwrap();
    }

    #[test]
    fn a_broken_promise_is_an_error() {
        let (promise, pending) = Pending::<()>::promised();
        drop(promise);
        assert_eq!(pending.wait().unwrap_err().kind(), ErrorKind::Io);
    }

    #[test]
    fn all_are_there_with_the_last_one_and_an_error_at_once() {
        let (promises, pending): (Vec<_>, Vec<_>) = (0..3).map(|_| Pending::promised()).unzip();
        let completing = thread::spawn(move || {
            promises.into_iter().enumerate().rev().for_each(|(n, promise)| promise.complete(Ok(n)))
        });
        assert_eq!(Pending::all(pending).wait().unwrap(), [0, 1, 2]);
        completing.join().unwrap();
        // The others are never completed.
        let (mut promises, pending): (Vec<_>, Vec<_>) =
            (0..3).map(|_| Pending::<()>::promised()).unzip();
        promises.remove(1).complete(Err(Error::new(ErrorKind::Refused, "no")));
        assert_eq!(Pending::all(pending).wait().unwrap_err().kind(), ErrorKind::Refused);
        assert_eq!(Pending::<()>::all(Vec::new()).wait().unwrap(), []);
    }

    #[test]
    fn waiting_ends_when_it_is_told_to_stop() {
        let stop = AtomicBool::new(false);
        let (promise, pending) = Pending::promised();
        let completing = thread::spawn(move || promise.complete(Ok(7)));
        assert_eq!(pending.wait_unless(&stop).unwrap().unwrap(), 7);
        completing.join().unwrap();
        let (promise, pending) = Pending::<()>::promised();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| pending.wait_unless(&stop).is_none());
            stop.store(true, Ordering::Relaxed);
            assert!(waiting.join().unwrap());
        });
        drop(promise);
    }

    #[test]
    fn several_are_pending_side_by_side() {
        let (promises, pending): (Vec<_>, Vec<_>) = (0..3).map(|_| Pending::promised()).unzip();
        // The last one that was begun is the first that is there.
        let completing = thread::spawn(move || {
            promises.into_iter().enumerate().rev().for_each(|(n, promise)| promise.complete(Ok(n)))
        });
        let values: Vec<usize> =
            pending.into_iter().map(|pending| pending.wait().unwrap()).collect();
        assert_eq!(values, [0, 1, 2]);
        completing.join().unwrap();
    }
}

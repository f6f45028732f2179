//! Counts of a loop's work that do not depend on load.

use core::cell::Cell;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one loop. Only its own thread writes them; other threads read a
        /// [`Snapshot`] through the loop.
        #[derive(Debug, Default)]
        pub struct Counters { $($(#[$doc])* pub $name: Count,)* }

        /// The values of [`Counters`] at one time.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Snapshot { $($(#[$doc])* pub $name: u64,)* }

        impl Counters {
            /// The current values.
            pub fn snapshot(&self) -> Snapshot {
                Snapshot { $($name: self.$name.value(),)* }
            }
        }

        impl Snapshot {
            /// The counts since `earlier`.
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name.wrapping_sub(earlier.$name),)* }
            }

            /// The sum of two loops.
            pub fn plus(&self, other: &Self) -> Self {
                Self { $($name: self.$name.wrapping_add(other.$name),)* }
            }

            /// Names and values, in order.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Receives that returned bytes.
    recv_calls,
    /// Receives that found nothing.
    recv_empty,
    /// Bytes received.
    recv_bytes,
    /// Sends that transferred bytes.
    send_calls,
    /// Sends that found the socket's buffer full.
    send_blocked,
    /// Bytes sent.
    send_bytes,
    /// Connections accepted.
    accepts,
    /// Polls that did not wait.
    polls,
    /// Polls that may have waited: each is a sleep and a wake-up.
    sleeps,
    /// Wake-ups by a socket or disk.
    wakeups_ready,
    /// Wake-ups by another thread.
    wakeups_remote,
    /// Wake-ups by a timer or without a cause.
    wakeups_timer,
    /// Turns of the loop.
    turns,
    /// Turns in which something was done.
    turns_busy,
    /// System calls that submit disk operations or fetch completions.
    disk_enters,
    /// Disk operations completed.
    disk_completions,
    /// Bytes of payload copied in user space.
    copied_bytes,
    /// Pool buffers allocated from the system.
    pool_allocations,
}

/// One counter.
#[derive(Debug, Default)]
pub struct Count(Cell<u64>);

impl Count {
    /// Adds.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.set(self.0.get().wrapping_add(n));
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> u64 {
        self.0.get()
    }
}
